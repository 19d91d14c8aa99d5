variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "environment" {
  description = "The name of the environment."
  type        = string
}

variable "region" {
  description = "The region of the environment."
  type        = string
}

variable "bootstrap" {
  description = "Outputs of the bootstrap: the account to impersonate; null to use your own credentials."
  type        = object({ service_account = optional(string) })
  default     = {}
}

variable "base" {
  description = "Outputs of the base stage."
  type = object({
    network = object({
      network        = string
      subnet         = string
      pods_range     = string
      services_range = string
    })
    node_service_account = string
  })
}

variable "cluster" {
  description = "The cluster."
  type = object({
    name            = string
    description     = string
    location        = string
    node_locations  = optional(list(string))
    mode            = string
    min_version     = optional(string)
    release_channel = string
    auto_upgrade    = bool
    gateway_api     = optional(bool, false)
    maintenance = optional(object({
      start     = optional(string)
      recurring = optional(object({ start = string, end = string, recurrence = string }))
      exclusions = optional(map(object({
        start = string
        end   = optional(string)
        scope = string
      })), {})
    }), {})
    security = optional(object({
      secrets_key           = optional(string)
      boot_disk_key         = optional(string)
      binary_authorization  = optional(bool, false)
      posture               = optional(string)
      intranode_visibility  = optional(bool, false)
      control_plane_logs    = optional(list(string), [])
      group                 = optional(string)
      kubelet_readonly_port = optional(bool, false)
    }), {})
    private = optional(object({
      nodes               = bool
      endpoint            = bool
      control_plane_range = optional(string)
      authorized_networks = map(string)
      dns_endpoint        = optional(bool, true)
    }))
  })
}

variable "pools" {
  description = "Node pools by name: the input of the node-pools module."
  type = map(object({
    machine_type   = string
    zones          = optional(list(string))
    nodes_per_zone = optional(number)
    autoscaling = optional(object({
      min              = number
      max              = number
      initial_per_zone = optional(number, 0)
    }))
    max_pods    = optional(number)
    disk_type   = optional(string)
    disk_gib    = optional(number, 200)
    labels      = optional(map(string), {})
    tags        = optional(list(string), [])
    spot        = optional(bool, false)
    reservation = optional(string)
    taints = optional(list(object({
      key    = string
      value  = string
      effect = string
    })), [])
    tpu = optional(object({
      topology  = string
      hosts     = number
      placement = string
    }))
    gpu = optional(object({
      type       = string
      count      = number
      driver     = string
      gvnic      = optional(bool, false)
      local_ssds = optional(number, 0)
    }))
  }))
  default = {}
}

variable "identities" {
  description = "Google service accounts of workloads, by id."
  type = map(object({
    existing                   = optional(string)
    roles                      = optional(set(string), [])
    namespace                  = string
    kubernetes_service_account = string
    buckets                    = optional(map(string), {})
  }))
  default = {}
}

variable "slices_controller" {
  description = "The service account of the slices controller, with a custom role; null for none."
  type        = object({ name = string, namespace = string, kubernetes_service_account = string })
  default     = null
}

variable "config_connector" {
  description = "The service account of Config Connector; null for none."
  type        = object({ name = string, roles = set(string), grants = optional(set(string)) })
  default     = null
}

variable "deletion_protection" {
  description = "Whether the cluster is protected against deletion."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels of all resources that support them."
  type        = map(string)
  default     = {}
}
