variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "location" {
  description = "Where the dataset lies."
  type        = string
}

variable "topic" {
  description = "The name of the topic that records are published to."
  type        = string
}

variable "dataset" {
  description = "The name of the dataset."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9_]+$", var.dataset))
    error_message = "A dataset's name has letters, digits and underscores."
  }
}

variable "table" {
  description = "The name of the table."
  type        = string
  default     = "requests"
}

variable "publishers" {
  description = "Members that may publish records, by any name that is known before they are made."
  type        = map(string)
  default     = {}
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
  description = "Labels of topic, subscription, dataset and table."
  type        = map(string)
  default     = {}
}
