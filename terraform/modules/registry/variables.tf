variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "environment" {
  description = "The name of the environment, for people to read."
  type        = string
}

variable "location" {
  description = "Where the images lie."
  type        = string
}

variable "name" {
  description = "The name of the repository."
  type        = string
}

variable "readers" {
  description = "Members that may pull images, by any name that is known before they are made."
  type        = map(string)
  default     = {}
}

variable "labels" {
  description = "Labels of the repository."
  type        = map(string)
  default     = {}
}
