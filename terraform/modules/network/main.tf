# The network of the cluster: a new one, or an existing one by name.

locals {
  create  = var.existing == null
  project = local.create ? var.project_id : coalesce(var.existing.host_project, var.project_id)
}

resource "google_compute_network" "this" {
  count = local.create ? 1 : 0

  project                 = var.project_id
  name                    = var.name
  auto_create_subnetworks = false
  routing_mode            = "REGIONAL"
  mtu                     = 8896
}

resource "google_compute_subnetwork" "this" {
  count = local.create ? 1 : 0

  project                  = var.project_id
  region                   = var.region
  name                     = var.subnet.name
  network                  = google_compute_network.this[0].id
  ip_cidr_range            = var.subnet.nodes
  private_ip_google_access = true

  secondary_ip_range {
    range_name    = "pods"
    ip_cidr_range = var.subnet.pods
  }

  secondary_ip_range {
    range_name    = "services"
    ip_cidr_range = var.subnet.services
  }

  dynamic "log_config" {
    for_each = var.flow_logs ? [1] : []

    content {
      aggregation_interval = "INTERVAL_5_SEC"
      flow_sampling        = 0.5
      metadata             = "INCLUDE_ALL_METADATA"
    }
  }

  lifecycle {
    # Google does not change secondary ranges; the default range of pods follows from the pools, which may grow later.
    ignore_changes = [secondary_ip_range]
  }
}

resource "google_compute_router" "this" {
  count = local.create && var.nat ? 1 : 0

  project = var.project_id
  region  = var.region
  name    = "${var.name}-router"
  network = google_compute_network.this[0].id
}

resource "google_compute_router_nat" "this" {
  count = local.create && var.nat ? 1 : 0

  project                            = var.project_id
  region                             = var.region
  name                               = "${var.name}-nat"
  router                             = google_compute_router.this[0].name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"

  log_config {
    enable = true
    filter = "ERRORS_ONLY"
  }
}
