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

variable "automation" {
  description = "The automation account, its bucket, its roles, and the services to enable."
  type = object({
    bucket          = object({ name = string, location = string })
    service_account = string
    services        = set(string)
    roles           = set(string)
    grants          = set(string)
    build_account   = optional(string)
  })
}

variable "state_prefix" {
  description = "The folder in the bucket for the states of the stages."
  type        = string
}

variable "force_destroy" {
  description = "Whether the bucket may be destroyed when it is not empty."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of all resources that support them."
  type        = map(string)
  default     = {}
}
