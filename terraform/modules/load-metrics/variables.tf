variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "location" {
  description = "The location of the dataset."
  type        = string
}

variable "topic" {
  description = "The name of the topic for records."
  type        = string
}

variable "schema" {
  description = "The name of the topic's schema. Default: TOPIC-schema."
  type        = string
  default     = null
}

variable "subscription" {
  description = "The name of the subscription that writes to the table. Default: TOPIC-to-bigquery."
  type        = string
  default     = null
}

variable "dataset" {
  description = "The name of the dataset."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9_]+$", var.dataset))
    error_message = "dataset: must consist of letters, digits and underscores"
  }
}

variable "table" {
  description = "The name of the table."
  type        = string
  default     = "requests"
}

variable "publishers" {
  description = "Members that may publish records, by a key that is known at plan time."
  type        = map(string)
  default     = {}
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
  description = "Labels of topic, subscription, dataset and table."
  type        = map(string)
  default     = {}
}
