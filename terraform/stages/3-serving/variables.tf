variable "project_id" {
  description = "The project of the environment."
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

variable "cluster" {
  description = "Outputs of the cluster stage."
  type        = object({ id = string, name = string })
}

variable "mesh" {
  description = "Whether to register the cluster in the fleet with a managed service mesh."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of all resources that support them."
  type        = map(string)
  default     = {}
}
