variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "name" {
  description = "The name of the cluster in the fleet."
  type        = string
}

variable "cluster_id" {
  description = "The full name of the cluster."
  type        = string
}

variable "labels" {
  description = "Labels of the membership and the feature."
  type        = map(string)
  default     = {}
}
