# Stage 0: what must exist before the rest can be provisioned. Its own state begins with whoever runs it, for the bucket for
# states is among the things it makes; then it goes there, too.

provider "google" {
  project = var.project_id
  region  = var.region
}

module "bootstrap" {
  source = "../../modules/bootstrap"

  project_id      = var.project_id
  environment     = var.environment
  region          = var.region
  bucket          = var.automation.bucket
  service_account = var.automation.service_account
  services        = var.automation.services
  roles           = var.automation.roles
  cloud_build     = var.automation.cloud_build
  state_prefix    = var.state_prefix
  force_destroy   = var.force_destroy
  labels          = var.labels
}
