# Stage 3: fleet and service mesh for model servers.

provider "google" {
  project                     = var.project_id
  region                      = var.region
  impersonate_service_account = var.bootstrap.service_account
}

module "mesh" {
  source = "../../modules/mesh"
  count  = var.mesh ? 1 : 0

  project_id = var.project_id
  name       = var.cluster.name
  cluster_id = var.cluster.id
  labels     = var.labels
}
