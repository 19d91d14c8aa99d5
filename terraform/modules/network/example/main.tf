module "network" {
  source = "../../modules/network"

  project_id = "my-project"
  region     = "us-central2"
  name       = "training-network"
  subnet     = { name = "training-subnet", pods = "10.192.0.0/16" }
  flow_logs  = true
}
