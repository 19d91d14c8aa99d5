# Stage 2: the cluster, its node pools, and who its workloads act as.

provider "google" {
  project                     = var.project_id
  region                      = var.region
  impersonate_service_account = var.bootstrap.service_account
}

module "cluster" {
  source = "../../modules/cluster"

  project_id           = var.project_id
  name                 = var.cluster.name
  description          = var.cluster.description
  location             = var.cluster.location
  node_locations       = var.cluster.node_locations
  mode                 = var.cluster.mode
  min_version          = var.cluster.min_version
  release_channel      = var.cluster.release_channel
  network              = var.base.network
  node_service_account = var.base.node_service_account
  private              = var.cluster.private
  maintenance_start    = var.cluster.maintenance_start
  gateway_api          = var.cluster.gateway_api
  deletion_protection  = var.deletion_protection
  labels               = var.labels
}

module "node_pools" {
  source = "../../modules/node-pools"

  project_id           = var.project_id
  region               = var.region
  cluster              = module.cluster.name
  location             = module.cluster.location
  node_service_account = var.base.node_service_account
  auto_upgrade         = var.cluster.auto_upgrade
  pools                = var.pools
  labels               = var.labels
}

module "workload_identity" {
  source   = "../../modules/workload-identity"
  for_each = var.identities

  project_id                 = var.project_id
  name                       = each.key
  existing                   = each.value.existing
  roles                      = each.value.roles
  workload_pool              = module.cluster.workload_pool
  namespace                  = each.value.namespace
  kubernetes_service_account = each.value.kubernetes_service_account
  buckets                    = each.value.buckets
}

module "config_connector" {
  source = "../../modules/config-connector"
  count  = var.config_connector == null ? 0 : 1

  project_id    = var.project_id
  environment   = var.environment
  name          = var.config_connector.name
  roles         = var.config_connector.roles
  grants        = var.config_connector.grants
  workload_pool = module.cluster.workload_pool
}
