module "node_pools" {
  source = "../../modules/node-pools"

  project_id           = "my-project"
  region               = "us-central2"
  cluster              = module.cluster.name
  location             = module.cluster.location
  node_service_account = google_service_account.nodes.email

  pools = {
    cpu = {
      machine_type = "n1-standard-4"
      autoscaling  = { min = 1, max = 3 }
    }
    slice-0 = {
      machine_type   = "ct4p-hightpu-4t"
      zones          = ["us-central2-b"]
      nodes_per_zone = 4
      max_pods       = 32
      tpu            = { topology = "2x2x4", hosts = 4, placement = "compact" }
    }
  }
}
