variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "name" {
  description = "The name of the cluster."
  type        = string

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$", var.name))
    error_message = "A cluster's name has at most 40 lower-case letters, digits and hyphens, and begins with a letter."
  }
}

variable "description" {
  description = "What the cluster is for."
  type        = string
  default     = "Training and serving on accelerator slices"
}

variable "location" {
  description = "A region, or a zone for a zonal cluster."
  type        = string
}

variable "node_locations" {
  description = "The zones of the nodes; GKE's own choice when null."
  type        = list(string)
  default     = null
}

variable "mode" {
  description = "standard or autopilot."
  type        = string
  default     = "standard"

  validation {
    condition     = contains(["standard", "autopilot"], var.mode)
    error_message = "The mode is standard or autopilot."
  }
}

variable "min_version" {
  description = "The oldest version that will do; the channel's default when null."
  type        = string
  default     = null
}

variable "release_channel" {
  description = "none, rapid, regular or stable."
  type        = string
  default     = "regular"

  validation {
    condition     = contains(["none", "rapid", "regular", "stable"], var.release_channel)
    error_message = "The release channel is none, rapid, regular or stable."
  }
}

variable "network" {
  description = "The network, subnet and names of ranges, as the network module gives them."
  type = object({
    network        = string
    subnet         = string
    pods_range     = string
    services_range = string
  })
}

variable "node_service_account" {
  description = "The e-mail address of the account that nodes run as."
  type        = string
}

variable "private" {
  description = "Nodes without public addresses, and who reaches the control plane; public when null."
  type = object({
    nodes               = optional(bool, true)
    endpoint            = optional(bool, false)
    control_plane_range = optional(string)
    authorized_networks = optional(map(string), {})
  })
  default = null
}

variable "gateway_api" {
  description = "Whether a Standard cluster serves the kinds of the Gateway API, with which requests come in from outside."
  type        = bool
  default     = false
}

variable "maintenance_start" {
  description = "When Google may work on the cluster every day, in UTC, such as 03:00; any time when null."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Whether destroying the cluster is refused."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels of the cluster."
  type        = map(string)
  default     = {}
}
