variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "environment" {
  description = "The name of the environment, for people to read."
  type        = string
}

variable "name" {
  description = "The id of the Google service account."
  type        = string
  default     = "config-connector"
}

variable "roles" {
  description = "Roles in the project: no wider than the graphs need."
  type        = set(string)

  validation {
    condition     = length(setintersection(var.roles, ["roles/owner", "roles/editor"])) == 0
    error_message = "Config Connector gets the roles that the graphs need, never owner or editor."
  }
}

variable "grants" {
  description = "Roles that it may give to others in the project, where it may change the project's policy; any when null."
  type        = set(string)
  default     = null
}

variable "workload_pool" {
  description = "The cluster's pool of identities."
  type        = string
}
