variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "name" {
  description = "The name of the cluster."
  type        = string

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$", var.name))
    error_message = "name: must be at most 40 lower-case letters, digits and hyphens, and start with a letter"
  }
}

variable "description" {
  description = "The description of the cluster."
  type        = string
  default     = "Training and serving on accelerator slices"
}

variable "location" {
  description = "A region, or a zone for a zonal cluster."
  type        = string
}

variable "node_locations" {
  description = "The zones of the nodes; null for GKE's default."
  type        = list(string)
  default     = null
}

variable "mode" {
  description = "standard or autopilot."
  type        = string
  default     = "standard"

  validation {
    condition     = contains(["standard", "autopilot"], var.mode)
    error_message = "mode: must be standard or autopilot"
  }
}

variable "min_version" {
  description = "The minimum version; null for the channel's default."
  type        = string
  default     = null
}

variable "release_channel" {
  description = "none, rapid, regular or stable."
  type        = string
  default     = "regular"

  validation {
    condition     = contains(["none", "rapid", "regular", "stable"], var.release_channel)
    error_message = "release_channel: must be none, rapid, regular or stable"
  }
}

variable "network" {
  description = "The network, subnet and names of secondary ranges: the output of the network module."
  type = object({
    network        = string
    subnet         = string
    pods_range     = string
    services_range = string
  })
}

variable "node_service_account" {
  description = "The e-mail address of the service account of nodes."
  type        = string
}

variable "private" {
  description = "Private nodes, and who reaches the control plane: by its DNS endpoint with IAM, by IP address from authorized networks. Null for a public cluster."
  type = object({
    nodes               = optional(bool, true)
    endpoint            = optional(bool, false)
    control_plane_range = optional(string)
    authorized_networks = optional(map(string), {})
    dns_endpoint        = optional(bool, true)
  })
  default = {}
}

variable "gateway_api" {
  description = "Whether a Standard cluster serves the Gateway API, for traffic from outside."
  type        = bool
  default     = false
}

variable "auto_upgrade" {
  description = "Whether GKE upgrades nodes. In a release channel, false adds a maintenance exclusion until the end of support of the version."
  type        = bool
  default     = true
}

variable "maintenance" {
  description = "The daily window (start in UTC, such as 03:00) or a recurring one, and exclusions by name; an exclusion without end lasts until the end of support."
  type = object({
    start     = optional(string)
    recurring = optional(object({ start = string, end = string, recurrence = string }))
    exclusions = optional(map(object({
      start = string
      end   = optional(string)
      scope = string
    })), {})
  })
  default = {}
}

variable "security" {
  description = "Optional hardening: a KMS key for Secrets, Binary Authorization, security posture (basic or vulnerabilities), intranode visibility, control plane logs, and the Google group for RBAC."
  type = object({
    secrets_key          = optional(string)
    binary_authorization = optional(bool, false)
    posture              = optional(string)
    intranode_visibility = optional(bool, false)
    control_plane_logs   = optional(list(string), [])
    group                = optional(string)
  })
  default = {}

  validation {
    condition     = var.security.posture == null ? true : contains(["basic", "vulnerabilities"], var.security.posture)
    error_message = "security.posture: must be basic or vulnerabilities"
  }
}

variable "deletion_protection" {
  description = "Whether the cluster is protected against deletion."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels of the cluster."
  type        = map(string)
  default     = {}
}
