variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "region" {
  description = "The region of the subnet."
  type        = string
}

variable "name" {
  description = "The name of the new network."
  type        = string
  default     = null
}

variable "subnet" {
  description = "The new subnet: its name, and the IP ranges of nodes, pods and services."
  type = object({
    name     = string
    nodes    = optional(string, "10.129.0.0/20")
    pods     = optional(string, "192.168.64.0/20")
    services = optional(string, "192.168.80.0/20")
  })
  default = null

  validation {
    condition     = var.subnet == null ? true : alltrue([for range in [var.subnet.nodes, var.subnet.pods, var.subnet.services] : can(cidrhost(range, 0))])
    error_message = "subnet: IP ranges must be in CIDR notation, such as 10.129.0.0/20"
  }
}

variable "nat" {
  description = "Whether nodes without public IP addresses can reach the internet."
  type        = bool
  default     = true
}

variable "flow_logs" {
  description = "Whether the subnet writes flow logs."
  type        = bool
  default     = false
}

variable "existing" {
  description = "An existing network, in this project or shared by a host project."
  type = object({
    host_project   = optional(string)
    network        = string
    subnet         = string
    pods_range     = string
    services_range = string
  })
  default = null
}
