variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "name" {
  description = "The name of the cluster in the fleet."
  type        = string
}

variable "cluster_id" {
  description = "The full resource name of the cluster."
  type        = string
}

variable "create_feature" {
  description = "Whether to enable the fleet's mesh feature; false if the project already has it."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels of the membership."
  type        = map(string)
  default     = {}
}
