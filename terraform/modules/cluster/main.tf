# A VPC-native cluster with Workload Identity, network policies, Cloud DNS, GCS FUSE and managed Prometheus; Standard or Autopilot.

locals {
  autopilot = var.mode == "autopilot"
}

resource "google_container_cluster" "this" {
  project             = var.project_id
  name                = var.name
  description         = var.description
  location            = var.location
  node_locations      = var.node_locations
  min_master_version  = var.min_version
  deletion_protection = var.deletion_protection
  resource_labels     = var.labels

  network         = var.network.network
  subnetwork      = var.network.subnet
  networking_mode = "VPC_NATIVE"

  # Without Dataplane V2 nobody obeys network policies. Autopilot has it by itself.
  datapath_provider = local.autopilot ? null : "ADVANCED_DATAPATH"

  ip_allocation_policy {
    cluster_secondary_range_name  = var.network.pods_range
    services_secondary_range_name = var.network.services_range
  }

  enable_autopilot = local.autopilot ? true : null

  # A cluster begins with a pool; ours are made by the node-pools module.
  remove_default_node_pool = local.autopilot ? null : true
  initial_node_count       = local.autopilot ? null : 1

  dynamic "node_config" {
    for_each = local.autopilot ? [] : [1]

    content {
      service_account = var.node_service_account
      oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]

      shielded_instance_config {
        enable_secure_boot          = true
        enable_integrity_monitoring = true
      }
    }
  }

  dynamic "cluster_autoscaling" {
    for_each = local.autopilot ? [1] : []

    content {
      auto_provisioning_defaults {
        service_account = var.node_service_account
        oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]
      }
    }
  }

  release_channel {
    channel = var.release_channel == "none" ? "UNSPECIFIED" : upper(var.release_channel)
  }

  dynamic "workload_identity_config" {
    for_each = local.autopilot ? [] : [1]

    content {
      workload_pool = "${var.project_id}.svc.id.goog"
    }
  }

  dynamic "dns_config" {
    for_each = local.autopilot ? [] : [1]

    content {
      cluster_dns       = "CLOUD_DNS"
      cluster_dns_scope = "CLUSTER_SCOPE"
    }
  }

  dynamic "addons_config" {
    for_each = local.autopilot ? [] : [1]

    content {
      gcs_fuse_csi_driver_config {
        enabled = true
      }

      gce_persistent_disk_csi_driver_config {
        enabled = true
      }
    }
  }

  # Said either way: a cluster keeps what it was told before. Autopilot has it on by itself.
  dynamic "gateway_api_config" {
    for_each = local.autopilot ? [] : [1]

    content {
      channel = var.gateway_api ? "CHANNEL_STANDARD" : "CHANNEL_DISABLED"
    }
  }

  logging_config {
    enable_components = ["SYSTEM_COMPONENTS", "WORKLOADS"]
  }

  monitoring_config {
    enable_components = ["SYSTEM_COMPONENTS"]

    managed_prometheus {
      enabled = true
    }
  }

  dynamic "private_cluster_config" {
    for_each = var.private == null ? [] : [var.private]

    content {
      enable_private_nodes    = private_cluster_config.value.nodes
      enable_private_endpoint = private_cluster_config.value.endpoint
      master_ipv4_cidr_block  = private_cluster_config.value.control_plane_range
    }
  }

  dynamic "master_authorized_networks_config" {
    for_each = var.private == null ? [] : [var.private.authorized_networks]

    content {
      dynamic "cidr_blocks" {
        for_each = master_authorized_networks_config.value

        content {
          display_name = cidr_blocks.key
          cidr_block   = cidr_blocks.value
        }
      }
    }
  }

  dynamic "maintenance_policy" {
    for_each = var.maintenance_start == null ? [] : [var.maintenance_start]

    content {
      daily_maintenance_window {
        start_time = maintenance_policy.value
      }
    }
  }

  lifecycle {
    # It is chosen once: a cluster that has none would be made anew.
    ignore_changes = [datapath_provider]

    precondition {
      condition     = !local.autopilot || var.release_channel != "none"
      error_message = "An Autopilot cluster follows a release channel."
    }
  }
}
