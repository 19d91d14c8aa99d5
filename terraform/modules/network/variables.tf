variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "region" {
  description = "The region of the subnet."
  type        = string
}

variable "name" {
  description = "The name of the network to make."
  type        = string
  default     = null
}

variable "subnet" {
  description = "The subnet to make: its name, and the ranges of nodes, pods and services."
  type = object({
    name     = string
    nodes    = optional(string, "10.129.0.0/20")
    pods     = optional(string, "192.168.64.0/20")
    services = optional(string, "192.168.80.0/20")
  })
  default = null

  validation {
    condition     = var.subnet == null ? true : alltrue([for range in [var.subnet.nodes, var.subnet.pods, var.subnet.services] : can(cidrhost(range, 0))])
    error_message = "Ranges are written as 10.129.0.0/20."
  }
}

variable "nat" {
  description = "Whether nodes without public addresses reach the outside."
  type        = bool
  default     = true
}

variable "existing" {
  description = "A network that is there already, in this project or shared by a host project."
  type = object({
    host_project   = optional(string)
    network        = string
    subnet         = string
    pods_range     = string
    services_range = string
  })
  default = null
}
