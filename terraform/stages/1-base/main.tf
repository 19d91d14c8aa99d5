# Stage 1: network, node service account, buckets, registry and TensorBoard. No machines, low cost.

provider "google" {
  project                     = var.project_id
  region                      = var.region
  impersonate_service_account = var.bootstrap.service_account
}

module "network" {
  source = "../../modules/network"

  project_id = var.project_id
  region     = var.region
  name       = var.network.name
  subnet     = var.network.subnet
  nat        = var.network.nat
  flow_logs  = var.network.flow_logs
  existing   = var.network.existing
}

resource "google_service_account" "nodes" {
  count = var.nodes.existing == null ? 1 : 0

  project      = var.project_id
  account_id   = var.nodes.name
  display_name = "Nodes of ${var.environment}"
}

resource "google_project_iam_member" "nodes" {
  for_each = var.nodes.existing == null ? var.nodes.roles : []

  project = var.project_id
  role    = each.value
  member  = google_service_account.nodes[0].member
}

module "storage" {
  source = "../../modules/storage"

  project_id    = var.project_id
  buckets       = var.buckets
  force_destroy = var.force_destroy
  labels        = var.labels
}

locals {
  node_service_account = var.nodes.existing == null ? google_service_account.nodes[0].email : var.nodes.existing
}

module "registry" {
  source = "../../modules/registry"
  count  = var.registry == null ? 0 : 1

  project_id  = var.project_id
  environment = var.environment
  location    = var.registry.location
  name        = var.registry.name
  readers     = { nodes = "serviceAccount:${local.node_service_account}" }
  labels      = var.labels
}

module "tensorboard" {
  source = "../../modules/tensorboard"
  count  = var.tensorboard == null ? 0 : 1

  project_id = var.project_id
  region     = var.region
  name       = var.tensorboard
  labels     = var.labels
}
