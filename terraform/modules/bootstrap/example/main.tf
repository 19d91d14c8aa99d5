module "bootstrap" {
  source = "../../modules/bootstrap"

  project_id      = "my-project"
  environment     = "training"
  region          = "us-central2"
  bucket          = { name = "my-project-automation", location = "us-central2" }
  service_account = "automation"
  services        = ["compute.googleapis.com", "container.googleapis.com", "iam.googleapis.com", "storage.googleapis.com"]
  roles           = ["roles/compute.networkAdmin", "roles/compute.viewer", "roles/container.admin", "roles/iam.serviceAccountAdmin", "roles/storage.admin"]
  grants          = ["roles/artifactregistry.reader", "roles/container.defaultNodeServiceAccount"]
  state_prefix    = "training/terraform"
}
