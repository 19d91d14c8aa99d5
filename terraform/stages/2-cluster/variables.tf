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
  description = "What the bootstrap made: whom to act as. Nobody else when the account is null."
  type        = object({ service_account = optional(string) })
  default     = {}
}

variable "base" {
  description = "What the base stage made."
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
    name              = string
    description       = string
    location          = string
    node_locations    = optional(list(string))
    mode              = string
    min_version       = optional(string)
    release_channel   = string
    auto_upgrade      = bool
    maintenance_start = optional(string)
    gateway_api       = optional(bool, false)
    private = optional(object({
      nodes               = bool
      endpoint            = bool
      control_plane_range = optional(string)
      authorized_networks = map(string)
    }))
  })
}

variable "pools" {
  description = "Node pools by name, as the node-pools module takes them."
  type        = any
  default     = {}
}

variable "identities" {
  description = "Google service accounts that pods act as, by id."
  type = map(object({
    existing                   = optional(string)
    roles                      = optional(set(string), [])
    namespace                  = string
    kubernetes_service_account = string
    buckets                    = optional(map(string), {})
  }))
  default = {}
}

variable "config_connector" {
  description = "The account of Config Connector; none when null."
  type        = object({ name = string, roles = set(string), grants = optional(set(string)) })
  default     = null
}

variable "deletion_protection" {
  description = "Whether destroying the cluster is refused."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels of everything that takes them."
  type        = map(string)
  default     = {}
}
