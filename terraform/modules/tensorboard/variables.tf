variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "region" {
  description = "The region of the TensorBoard."
  type        = string
}

variable "name" {
  description = "The display name."
  type        = string
}

variable "labels" {
  description = "Labels of the TensorBoard."
  type        = map(string)
  default     = {}
}
