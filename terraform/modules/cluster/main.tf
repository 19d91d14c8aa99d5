# A VPC-native cluster with Workload Identity, network policies, Cloud DNS, GCS FUSE and managed Prometheus; Standard or Autopilot.

locals {
  autopilot = var.mode == "autopilot"

  # Nodes in a release channel always have auto-upgrade. An exclusion until the end of support of the version holds it.
  held = var.release_channel != "none" && !var.auto_upgrade ? {
    hold-nodes = { start = "2025-01-01T00:00:00Z", end = null, scope = "NO_MINOR_OR_NODE_UPGRADES" }
  } : {}
  exclusions  = merge(var.maintenance.exclusions, local.held)
  maintenance = var.maintenance.start != null || var.maintenance.recurring != null || length(local.exclusions) > 0
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

  # Network policies are enforced only with Dataplane V2. Autopilot always has it.
  datapath_provider = local.autopilot ? null : "ADVANCED_DATAPATH"

  ip_allocation_policy {
    cluster_secondary_range_name  = var.network.pods_range
    services_secondary_range_name = var.network.services_range
  }

  enable_autopilot            = local.autopilot ? true : null
  enable_intranode_visibility = local.autopilot ? null : var.security.intranode_visibility

  # Delete the default pool: the node-pools module creates the pools.
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

  # Set explicitly: an omitted value keeps the previous setting. Autopilot always has it.
  dynamic "gateway_api_config" {
    for_each = local.autopilot ? [] : [1]

    content {
      channel = var.gateway_api ? "CHANNEL_STANDARD" : "CHANNEL_DISABLED"
    }
  }

  logging_config {
    enable_components = concat(["SYSTEM_COMPONENTS", "WORKLOADS"], var.security.control_plane_logs)
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

  # Clients reach the control plane by its DNS endpoint, where IAM decides; by IP address only from authorized networks.
  dynamic "control_plane_endpoints_config" {
    for_each = var.private == null ? [] : [var.private]

    content {
      dns_endpoint_config {
        allow_external_traffic = control_plane_endpoints_config.value.dns_endpoint
      }
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
    for_each = local.maintenance ? [var.maintenance] : []

    content {
      # Exclusions need a window: without one of yours, maintenance happens at 03:00 UTC.
      dynamic "daily_maintenance_window" {
        for_each = maintenance_policy.value.recurring == null ? [coalesce(maintenance_policy.value.start, "03:00")] : []

        content {
          start_time = daily_maintenance_window.value
        }
      }

      dynamic "recurring_window" {
        for_each = maintenance_policy.value.recurring == null ? [] : [maintenance_policy.value.recurring]

        content {
          start_time = recurring_window.value.start
          end_time   = recurring_window.value.end
          recurrence = recurring_window.value.recurrence
        }
      }

      dynamic "maintenance_exclusion" {
        for_each = local.exclusions

        content {
          exclusion_name = maintenance_exclusion.key
          start_time     = maintenance_exclusion.value.start
          end_time       = maintenance_exclusion.value.end

          exclusion_options {
            scope             = maintenance_exclusion.value.scope
            end_time_behavior = maintenance_exclusion.value.end == null ? "UNTIL_END_OF_SUPPORT" : null
          }
        }
      }
    }
  }

  dynamic "database_encryption" {
    for_each = var.security.secrets_key == null ? [] : [var.security.secrets_key]

    content {
      state    = "ENCRYPTED"
      key_name = database_encryption.value
    }
  }

  dynamic "binary_authorization" {
    for_each = var.security.binary_authorization ? [1] : []

    content {
      evaluation_mode = "PROJECT_SINGLETON_POLICY_ENFORCE"
    }
  }

  dynamic "security_posture_config" {
    for_each = var.security.posture == null ? [] : [var.security.posture]

    content {
      mode               = "BASIC"
      vulnerability_mode = security_posture_config.value == "vulnerabilities" ? "VULNERABILITY_BASIC" : "VULNERABILITY_DISABLED"
    }
  }

  dynamic "authenticator_groups_config" {
    for_each = var.security.group == null ? [] : [var.security.group]

    content {
      security_group = authenticator_groups_config.value
    }
  }

  lifecycle {
    # datapath_provider is immutable: a change would replace the cluster. node_config is read back from the first node pool once
    # the default pool is deleted: its service account would replace the cluster on the next apply.
    ignore_changes = [datapath_provider, node_config]

    precondition {
      condition     = !local.autopilot || var.release_channel != "none"
      error_message = "release_channel: must not be none in an Autopilot cluster"
    }
  }
}
