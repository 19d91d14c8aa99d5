variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "environment" {
  description = "The name of the environment."
  type        = string
}

variable "name" {
  description = "The id of the Google service account."
  type        = string
}

variable "namespace" {
  description = "The namespace of the controller."
  type        = string
}

variable "kubernetes_service_account" {
  description = "The Kubernetes service account of the controller."
  type        = string
}

variable "workload_pool" {
  description = "The workload identity pool of the cluster."
  type        = string
}

variable "node_service_account" {
  description = "The e-mail address of the service account of nodes."
  type        = string
}
