module "config_connector" {
  source = "../../modules/config-connector"

  project_id    = "my-project"
  environment   = "self-service"
  name          = "config-connector"
  roles         = ["roles/storage.admin"]
  workload_pool = module.cluster.workload_pool
}
