output "topic" {
  description = "The full name of the topic."
  value       = module.load_metrics.topic
}

output "subscription" {
  description = "The full name of the subscription."
  value       = module.load_metrics.subscription
}

output "table" {
  description = "The table in SQL notation."
  value       = module.load_metrics.table
}
