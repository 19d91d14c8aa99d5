output "name" {
  description = "The name of the cluster."
  value       = google_container_cluster.this.name
}

output "location" {
  description = "The region or zone of the cluster."
  value       = google_container_cluster.this.location
}

output "endpoint" {
  description = "The address of the control plane."
  value       = google_container_cluster.this.endpoint
}

output "ca_certificate" {
  description = "The certificate of the control plane's authority, in base64."
  value       = google_container_cluster.this.master_auth[0].cluster_ca_certificate
}

output "workload_pool" {
  description = "The pool of identities of the cluster's service accounts."
  value       = "${var.project_id}.svc.id.goog"

  # Bindings to the pool are refused until a cluster has made it.
  depends_on = [google_container_cluster.this]
}

output "id" {
  description = "The full name of the cluster."
  value       = google_container_cluster.this.id
}
