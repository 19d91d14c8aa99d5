variable "project_id" {
  description = "The project of the environment."
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

variable "cluster" {
  description = "What the cluster stage made."
  type        = object({ id = string, name = string })
}

variable "mesh" {
  description = "Whether the cluster joins a fleet with a managed service mesh."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of everything that takes them."
  type        = map(string)
  default     = {}
}
