# Stage 4: storage for load test records.

provider "google" {
  project                     = var.project_id
  region                      = var.region
  impersonate_service_account = var.bootstrap.service_account
}

module "load_metrics" {
  source = "../../modules/load-metrics"

  project_id          = var.project_id
  location            = var.load_metrics.location
  topic               = var.load_metrics.topic
  schema              = var.load_metrics.schema
  subscription        = var.load_metrics.subscription
  dataset             = var.load_metrics.dataset
  table               = var.load_metrics.table
  publishers          = var.load_metrics.publishers
  deletion_protection = var.deletion_protection
  force_destroy       = var.force_destroy
  labels              = var.labels
}
