# Node pools from one map: CPU machines, TPU slices and GPU machines. The caller supplies the hardware facts
# (hosts, topology, chips); the module knows what GKE requires for each kind of pool.

locals {
  # A slice of the newest generation has its own workload policy; others have a placement policy in the pool.
  policies = { for name, pool in var.pools : name => pool.tpu.topology if try(pool.tpu.placement, "") == "workload-policy" }
}

resource "google_compute_resource_policy" "slice" {
  for_each = local.policies

  project = var.project_id
  region  = var.region
  name    = each.key

  workload_policy {
    type                 = "HIGH_THROUGHPUT"
    accelerator_topology = each.value
  }
}

resource "google_container_node_pool" "this" {
  for_each = var.pools

  project        = var.project_id
  cluster        = var.cluster
  location       = var.location
  name           = each.key
  node_locations = each.value.zones
  node_count     = each.value.autoscaling == null ? each.value.nodes_per_zone : null

  # Sets the block of pod addresses that each node takes: 110 pods are a /24, 32 a /26.
  max_pods_per_node = each.value.max_pods

  # An autoscaled pool starts with its minimum number of nodes.
  initial_node_count = each.value.autoscaling == null ? null : each.value.autoscaling.initial_per_zone

  dynamic "autoscaling" {
    for_each = each.value.autoscaling == null ? [] : [each.value.autoscaling]

    content {
      # GKE compares the limit per zone with the hosts of a slice, and ignores the total.
      min_node_count       = each.value.tpu == null ? null : autoscaling.value.min
      max_node_count       = each.value.tpu == null ? null : autoscaling.value.max
      total_min_node_count = each.value.tpu == null ? autoscaling.value.min : null
      total_max_node_count = each.value.tpu == null ? autoscaling.value.max : null
      location_policy      = each.value.spot || each.value.tpu != null ? "ANY" : "BALANCED"
    }
  }

  management {
    auto_repair  = true
    auto_upgrade = var.auto_upgrade
  }

  # The hosts of a slice are created and deleted together: no surge nodes during an upgrade.
  dynamic "upgrade_settings" {
    for_each = try(each.value.tpu.hosts, 1) > 1 ? [1] : []

    content {
      strategy        = "SURGE"
      max_surge       = 0
      max_unavailable = 1
    }
  }

  dynamic "placement_policy" {
    for_each = try(each.value.tpu.placement, "none") == "none" ? [] : [each.value.tpu]

    content {
      # With a workload policy, the API stores no type: any other value here would replace the pool on every apply.
      type         = placement_policy.value.placement == "compact" ? "COMPACT" : ""
      tpu_topology = placement_policy.value.topology
      policy_name  = placement_policy.value.placement == "compact" ? null : google_compute_resource_policy.slice[each.key].name
    }
  }

  node_config {
    machine_type    = each.value.machine_type
    disk_type       = each.value.disk_type
    disk_size_gb    = each.value.disk_gib
    service_account = var.node_service_account
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]
    spot            = each.value.spot

    boot_disk_kms_key = var.boot_disk_key

    # A slice is immutable, but the provider plans another topology or machine type as an update in place, which GKE refuses. A change
    # of metadata replaces the pool.
    metadata = each.value.tpu == null ? null : {
      disable-legacy-endpoints = "true"
      sliceworks-slice         = "${each.value.machine_type} ${each.value.tpu.topology}"
    }

    labels          = each.value.labels
    tags            = each.value.tags
    resource_labels = var.labels

    dynamic "taint" {
      for_each = each.value.taints

      content {
        key    = taint.value.key
        value  = taint.value.value
        effect = taint.value.effect
      }
    }

    dynamic "guest_accelerator" {
      for_each = each.value.gpu == null ? [] : [each.value.gpu]

      content {
        type  = guest_accelerator.value.type
        count = guest_accelerator.value.count

        gpu_driver_installation_config {
          gpu_driver_version = guest_accelerator.value.driver
        }
      }
    }

    dynamic "gvnic" {
      for_each = try(each.value.gpu.gvnic, false) ? [1] : []

      content {
        enabled = true
      }
    }

    dynamic "ephemeral_storage_local_ssd_config" {
      for_each = try(each.value.gpu.local_ssds, 0) > 0 ? [each.value.gpu.local_ssds] : []

      content {
        local_ssd_count = ephemeral_storage_local_ssd_config.value
      }
    }

    dynamic "reservation_affinity" {
      for_each = each.value.reservation == null ? [] : [each.value.reservation]

      content {
        consume_reservation_type = "SPECIFIC_RESERVATION"
        key                      = "compute.googleapis.com/reservation-name"
        values                   = [reservation_affinity.value]
      }
    }

    # Drivers that you install yourself are not signed: they do not load with secure boot.
    shielded_instance_config {
      enable_secure_boot          = try(each.value.gpu.driver, "") != "INSTALLATION_DISABLED"
      enable_integrity_monitoring = true
    }

    kubelet_config {
      insecure_kubelet_readonly_port_enabled = var.kubelet_readonly_port ? "TRUE" : "FALSE"
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }
  }

  lifecycle {
    # The autoscaler changes the node count: ignore the initial one.
    ignore_changes = [initial_node_count]
  }
}
