output "bucket" {
  description = "The name of the automation bucket."
  value       = google_storage_bucket.automation.name
}

output "service_account" {
  description = "The e-mail address of the automation account."
  value       = google_service_account.automation.email
}

output "services" {
  description = "The services that were enabled."
  value       = sort([for service in google_project_service.enabled : service.service])
}
