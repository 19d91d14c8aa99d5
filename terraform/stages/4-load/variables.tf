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

variable "load_metrics" {
  description = "The topic with its schema and subscription, the dataset and its table, and the publishers."
  type = object({
    location     = string
    topic        = string
    schema       = optional(string)
    subscription = optional(string)
    dataset      = string
    table        = string
    publishers   = optional(map(string), {})
  })
}

variable "deletion_protection" {
  description = "Whether the table is protected against deletion."
  type        = bool
  default     = true
}

variable "force_destroy" {
  description = "Whether the dataset may be destroyed when it is not empty."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of all resources that support them."
  type        = map(string)
  default     = {}
}
