output "bucket" {
  description = "The name of the automation bucket."
  value       = google_storage_bucket.automation.name
}

output "service_account" {
  description = "The e-mail address of the automation account."
  value       = google_service_account.automation.email
}

output "services" {
  description = "The enabled services."
  value       = sort([for service in concat([google_project_service.resource_manager], values(google_project_service.enabled)) : service.service])
}
