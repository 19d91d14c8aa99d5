variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "buckets" {
  description = "Buckets by name."
  type = map(object({
    location          = string
    storage_class     = optional(string, "STANDARD")
    versioning        = optional(bool, false)
    delete_after_days = optional(number)
  }))
  default = {}
}

variable "force_destroy" {
  description = "Whether buckets may be destroyed when they are not empty."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of the buckets."
  type        = map(string)
  default     = {}
}
