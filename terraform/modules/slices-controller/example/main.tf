module "slices_controller" {
  source = "../../modules/slices-controller"

  project_id                 = "my-project"
  environment                = "training"
  name                       = "tpu-provisioner"
  namespace                  = "tpu-provisioner-system"
  kubernetes_service_account = "tpu-provisioner-controller-manager"
  workload_pool              = module.cluster.workload_pool
  node_service_account       = google_service_account.nodes.email
}
