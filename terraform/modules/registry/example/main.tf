module "registry" {
  source = "../../modules/registry"

  project_id  = "my-project"
  environment = "training"
  location    = "us-central2"
  name        = "training-images"
  readers     = { nodes = google_service_account.nodes.member }
}
