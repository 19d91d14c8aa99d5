output "email" {
  description = "The e-mail address of the controller's service account."
  value       = google_service_account.this.email
}
