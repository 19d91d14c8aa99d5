module "storage" {
  source = "../../modules/storage"

  project_id = "my-project"
  buckets = {
    my-project-training = {
      location          = "us-central2"
      storage_class     = "STANDARD"
      versioning        = false
      delete_after_days = 30
    }
  }
}
