# Stage 2: the cluster, its node pools, and the service accounts of its workloads.

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
  auto_upgrade         = var.cluster.auto_upgrade
  maintenance          = var.cluster.maintenance
  security             = var.cluster.security
  gateway_api          = var.cluster.gateway_api
  deletion_protection  = var.deletion_protection
  labels               = var.labels
}

module "node_pools" {
  source = "../../modules/node-pools"

  project_id            = var.project_id
  region                = var.region
  cluster               = module.cluster.name
  location              = module.cluster.location
  node_service_account  = var.base.node_service_account
  auto_upgrade          = var.cluster.release_channel != "none" || var.cluster.auto_upgrade
  boot_disk_key         = var.cluster.security.boot_disk_key
  kubelet_readonly_port = var.cluster.security.kubelet_readonly_port
  pools                 = var.pools
  labels                = var.labels
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

module "slices_controller" {
  source = "../../modules/slices-controller"
  count  = var.slices_controller == null ? 0 : 1

  project_id                 = var.project_id
  environment                = var.environment
  name                       = var.slices_controller.name
  namespace                  = var.slices_controller.namespace
  kubernetes_service_account = var.slices_controller.kubernetes_service_account
  workload_pool              = module.cluster.workload_pool
  node_service_account       = var.base.node_service_account
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
