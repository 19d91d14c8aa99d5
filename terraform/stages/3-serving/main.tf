# Stage 3: what model servers need around them: the fleet and its service mesh.

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
