output "email" {
  description = "The e-mail address of the account."
  value       = google_service_account.this.email
}
