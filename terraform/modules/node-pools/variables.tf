variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "region" {
  description = "The region, for the policies that place slices."
  type        = string
}

variable "cluster" {
  description = "The name of the cluster."
  type        = string
}

variable "location" {
  description = "The location of the cluster."
  type        = string
}

variable "node_service_account" {
  description = "The e-mail address of the account that nodes run as."
  type        = string
}

variable "auto_upgrade" {
  description = "Whether nodes follow the control plane's version."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels of the machines, for accounting."
  type        = map(string)
  default     = {}
}

variable "pools" {
  description = "Node pools by name. At most one of tpu and gpu."
  type = map(object({
    machine_type   = string
    zones          = optional(list(string))
    nodes_per_zone = optional(number)
    autoscaling = optional(object({
      min              = number
      max              = number
      initial_per_zone = optional(number, 0)
    }))
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

  validation {
    condition     = alltrue([for pool in values(var.pools) : (pool.nodes_per_zone == null) != (pool.autoscaling == null)])
    error_message = "A pool has nodes_per_zone or autoscaling."
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : pool.tpu == null || pool.gpu == null])
    error_message = "A pool has TPUs or GPUs."
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : contains(["compact", "workload-policy", "none"], try(pool.tpu.placement, "none"))])
    error_message = "A slice's placement is compact, workload-policy or none."
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : try(pool.tpu.hosts, 1) == 1 || length(coalesce(pool.zones, [])) == 1])
    error_message = "A slice of several hosts lies in one zone."
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : try(pool.tpu.hosts, 1) == 1 || try(coalesce(pool.nodes_per_zone, pool.autoscaling.max) == pool.tpu.hosts, true)])
    error_message = "A slice of several hosts has exactly that many nodes, or none."
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : !(pool.spot && pool.reservation != null)])
    error_message = "A pool is spot or of a reservation."
  }
}
