module "cluster" {
  source = "../../modules/cluster"

  project_id           = "my-project"
  name                 = "training-cluster"
  location             = "us-central2"
  node_locations       = ["us-central2-b"]
  network              = module.network.network
  node_service_account = google_service_account.nodes.email
  auto_upgrade         = false # an exclusion holds the upgrades of nodes

  private = {
    authorized_networks = { office = "198.51.100.0/24" }
  }
}
