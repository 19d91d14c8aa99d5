variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "environment" {
  description = "The display name of the environment."
  type        = string
}

variable "location" {
  description = "The location of the repository."
  type        = string
}

variable "name" {
  description = "The name of the repository."
  type        = string
}

variable "readers" {
  description = "Members that may pull images, by a key that is known at plan time."
  type        = map(string)
  default     = {}
}

variable "labels" {
  description = "Labels of the repository."
  type        = map(string)
  default     = {}
}
