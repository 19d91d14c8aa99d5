module "tensorboard" {
  source = "../../modules/tensorboard"

  project_id = "my-project"
  region     = "us-central2"
  name       = "training-tensorboard"
}
