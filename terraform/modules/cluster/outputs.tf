locals {
  dns_endpoint = try(var.private.dns_endpoint, false) ? try(coalesce(google_container_cluster.this.control_plane_endpoints_config[0].dns_endpoint_config[0].endpoint, ""), "") : ""
}

output "name" {
  description = "The name of the cluster."
  value       = google_container_cluster.this.name
}

output "location" {
  description = "The region or zone of the cluster."
  value       = google_container_cluster.this.location
}

output "endpoint" {
  description = "The address of the control plane: its DNS endpoint if that is reachable, else its IP address."
  value       = local.dns_endpoint != "" ? local.dns_endpoint : google_container_cluster.this.endpoint
}

output "ca_certificate" {
  description = "The CA certificate of the control plane, in base64; empty for the DNS endpoint, which has a public certificate."
  value       = local.dns_endpoint != "" ? "" : google_container_cluster.this.master_auth[0].cluster_ca_certificate
}

output "workload_pool" {
  description = "The workload identity pool of the cluster."
  value       = "${var.project_id}.svc.id.goog"

  # The pool exists only after the first cluster: bindings must wait for it.
  depends_on = [google_container_cluster.this]
}

output "id" {
  description = "The full resource name of the cluster."
  value       = google_container_cluster.this.id
}
