variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "name" {
  description = "The id of the Google service account."
  type        = string
}

variable "existing" {
  description = "The e-mail address of an existing account; its roles are not changed."
  type        = string
  default     = null
}

variable "roles" {
  description = "Roles of a new account in the project."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setintersection(var.roles, ["roles/owner", "roles/editor"])) == 0
    error_message = "roles: must not include owner or editor"
  }
}

variable "workload_pool" {
  description = "The workload identity pool of the cluster."
  type        = string
}

variable "namespace" {
  description = "The namespace of the pods."
  type        = string
}

variable "kubernetes_service_account" {
  description = "The Kubernetes service account of the pods."
  type        = string
}

variable "buckets" {
  description = "Access to buckets by name: read or write."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for access in values(var.buckets) : contains(["read", "write"], access)])
    error_message = "buckets: access must be read or write"
  }
}
