variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "environment" {
  description = "The display name of the environment."
  type        = string
}

variable "name" {
  description = "The id of the Google service account."
  type        = string
  default     = "config-connector"
}

variable "roles" {
  description = "Roles in the project that the graphs need."
  type        = set(string)

  validation {
    condition     = length(setintersection(var.roles, ["roles/owner", "roles/editor"])) == 0
    error_message = "roles: must not include owner or editor"
  }
}

variable "grants" {
  description = "Roles that it may grant in the project, if it may change the project's policy; null for any."
  type        = set(string)
  default     = null
}

variable "workload_pool" {
  description = "The workload identity pool of the cluster."
  type        = string
}
