variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "environment" {
  description = "The name of the environment."
  type        = string
}

variable "region" {
  description = "The region of the environment."
  type        = string
}

variable "bootstrap" {
  description = "Outputs of the bootstrap: the account to impersonate; null to use your own credentials."
  type        = object({ service_account = optional(string) })
  default     = {}
}

variable "network" {
  description = "A new or an existing network."
  type = object({
    name = optional(string)
    subnet = optional(object({
      name     = string
      nodes    = string
      pods     = string
      services = string
    }))
    nat       = optional(bool, true)
    flow_logs = optional(bool, false)
    existing = optional(object({
      host_project   = optional(string)
      network        = string
      subnet         = string
      pods_range     = string
      services_range = string
    }))
  })
}

variable "nodes" {
  description = "The service account of nodes: a new one with its roles, or the e-mail address of an existing one."
  type = object({
    name     = optional(string)
    existing = optional(string)
    roles    = optional(set(string), [])
  })
}

variable "buckets" {
  description = "Buckets by name."
  type = map(object({
    location          = string
    storage_class     = string
    versioning        = bool
    delete_after_days = optional(number)
  }))
  default = {}
}

variable "registry" {
  description = "The image registry; null for none."
  type        = object({ name = string, location = string })
  default     = null
}

variable "tensorboard" {
  description = "The name of the TensorBoard; null for none."
  type        = string
  default     = null
}

variable "force_destroy" {
  description = "Whether buckets may be destroyed when they are not empty."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of all resources that support them."
  type        = map(string)
  default     = {}
}
