output "email" {
  description = "The e-mail address of the Google service account."
  value       = local.email
}
