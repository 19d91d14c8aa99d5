# A Vertex AI TensorBoard that training jobs upload to.

resource "google_vertex_ai_tensorboard" "this" {
  project      = var.project_id
  region       = var.region
  display_name = var.name
  description  = "Metrics of training jobs"
  labels       = var.labels
}
