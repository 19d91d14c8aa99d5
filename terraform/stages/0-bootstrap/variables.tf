variable "project_id" {
  description = "The project that everything is made in."
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
  description = "The account that provisions, its bucket, its roles, and the services to enable."
  type = object({
    bucket          = object({ name = string, location = string })
    service_account = string
    services        = set(string)
    roles           = set(string)
    cloud_build     = bool
  })
}

variable "state_prefix" {
  description = "The folder of the bucket under which each stage keeps its state."
  type        = string
}

variable "force_destroy" {
  description = "Whether the bucket may be destroyed with what is in it."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of everything that takes them."
  type        = map(string)
  default     = {}
}
