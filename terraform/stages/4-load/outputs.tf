output "topic" {
  description = "The full name of the topic."
  value       = module.load_metrics.topic
}

output "table" {
  description = "The table, as SQL names it."
  value       = module.load_metrics.table
}
