variable "project_id" {
  description = "The project of the environment."
  type        = string
}

variable "region" {
  description = "The region of the placement policies."
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
  description = "The e-mail address of the service account of nodes."
  type        = string
}

variable "auto_upgrade" {
  description = "Whether nodes are upgraded with the control plane. Must be true in a release channel."
  type        = bool
  default     = true
}

variable "boot_disk_key" {
  description = "The KMS key of boot disks; null for Google's keys."
  type        = string
  default     = null
}

variable "kubelet_readonly_port" {
  description = "Whether kubelets serve their unauthenticated port 10255."
  type        = bool
  default     = false
}

variable "labels" {
  description = "Labels of the machines, for billing."
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

  validation {
    condition     = alltrue([for pool in values(var.pools) : (pool.nodes_per_zone == null) != (pool.autoscaling == null)])
    error_message = "pools: set exactly one of nodes_per_zone and autoscaling"
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : pool.tpu == null || pool.gpu == null])
    error_message = "pools: set at most one of tpu and gpu"
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : contains(["compact", "workload-policy", "none"], try(pool.tpu.placement, "none"))])
    error_message = "pools: tpu.placement must be compact, workload-policy or none"
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : try(pool.tpu.hosts, 1) == 1 || length(coalesce(pool.zones, [])) == 1])
    error_message = "pools: a multi-host slice must be in one zone"
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : try(pool.tpu.hosts, 1) == 1 || try(coalesce(pool.nodes_per_zone, pool.autoscaling.max) == pool.tpu.hosts, true)])
    error_message = "pools: a multi-host slice must have as many nodes as hosts, or 0"
  }

  validation {
    condition     = alltrue([for pool in values(var.pools) : !(pool.spot && pool.reservation != null)])
    error_message = "pools: set at most one of spot and reservation"
  }
}
