output "name" {
  description = "The full resource name of the TensorBoard."
  value       = google_vertex_ai_tensorboard.this.name
}
