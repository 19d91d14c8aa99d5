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

variable "load_metrics" {
  description = "The topic, the dataset and its table, and who publishes."
  type = object({
    location   = string
    topic      = string
    dataset    = string
    table      = string
    publishers = optional(map(string), {})
  })
}

variable "deletion_protection" {
  description = "Whether destroying the table is refused."
  type        = bool
  default     = true
}

variable "force_destroy" {
  description = "Whether the dataset may be destroyed with what is in it."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of everything that takes them."
  type        = map(string)
  default     = {}
}
