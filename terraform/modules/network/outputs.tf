output "network" {
  description = "The network, its subnet and the names of the secondary ranges."
  value = {
    network        = local.create ? google_compute_network.this[0].id : "projects/${local.project}/global/networks/${var.existing.network}"
    subnet         = local.create ? google_compute_subnetwork.this[0].id : "projects/${local.project}/regions/${var.region}/subnetworks/${var.existing.subnet}"
    pods_range     = local.create ? "pods" : var.existing.pods_range
    services_range = local.create ? "services" : var.existing.services_range
  }

  precondition {
    condition     = (var.existing == null) == (var.name != null && var.subnet != null)
    error_message = "network: set name and subnet, or existing"
  }
}
