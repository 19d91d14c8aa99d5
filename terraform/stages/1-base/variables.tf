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
  description = "What the bootstrap made: whom to act as. Nobody else when the account is null."
  type        = object({ service_account = optional(string) })
  default     = {}
}

variable "network" {
  description = "A network to make, or an existing one."
  type = object({
    name = optional(string)
    subnet = optional(object({
      name     = string
      nodes    = string
      pods     = string
      services = string
    }))
    nat = optional(bool, true)
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
  description = "The account that nodes run as: a new one with its roles, or the e-mail address of an existing one."
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
  description = "The registry of images to make; none when null."
  type        = object({ name = string, location = string })
  default     = null
}

variable "tensorboard" {
  description = "The name of the TensorBoard to make; none when null."
  type        = string
  default     = null
}

variable "force_destroy" {
  description = "Whether buckets may be destroyed with what is in them."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of everything that takes them."
  type        = map(string)
  default     = {}
}
