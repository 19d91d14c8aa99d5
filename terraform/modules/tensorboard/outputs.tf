output "name" {
  description = "The full name that uploads go to."
  value       = google_vertex_ai_tensorboard.this.name
}
