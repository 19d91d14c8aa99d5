variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "name" {
  description = "The id of the Google service account."
  type        = string
}

variable "existing" {
  description = "The e-mail address of an account that is there already; its roles stay as they are."
  type        = string
  default     = null
}

variable "roles" {
  description = "Roles of a new account in the project."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setintersection(var.roles, ["roles/owner", "roles/editor"])) == 0
    error_message = "A workload gets the roles it needs, never owner or editor."
  }
}

variable "workload_pool" {
  description = "The cluster's pool of identities."
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
  description = "What the account may do with which buckets: read or write, by the bucket's name."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for access in values(var.buckets) : contains(["read", "write"], access)])
    error_message = "Access to a bucket is read or write."
  }
}
