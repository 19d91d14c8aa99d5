output "topic" {
  description = "The full name of the topic."
  value       = google_pubsub_topic.this.id
}

output "subscription" {
  description = "The full name of the subscription."
  value       = google_pubsub_subscription.this.id
}

output "table" {
  description = "The table in SQL notation."
  value       = "${var.project_id}.${google_bigquery_dataset.this.dataset_id}.${google_bigquery_table.this.table_id}"
}
