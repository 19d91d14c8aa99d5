module "trainer" {
  source = "../../modules/workload-identity"

  project_id                 = "my-project"
  name                       = "trainer"
  roles                      = ["roles/logging.logWriter"]
  workload_pool              = module.cluster.workload_pool
  namespace                  = "training"
  kubernetes_service_account = "trainer"
  buckets                    = { my-project-training = "write" }
}
