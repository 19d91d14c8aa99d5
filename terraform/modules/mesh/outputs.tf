output "membership" {
  description = "The cluster's membership in the fleet."
  value       = google_gke_hub_membership.this.name
}
