# Stage 0: prerequisites of all other stages. Its own state is local at first, because this stage creates the bucket for
# states; then it moves there.

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
  grants          = var.automation.grants
  build_account   = var.automation.build_account
  state_prefix    = var.state_prefix
  force_destroy   = var.force_destroy
  labels          = var.labels
}
