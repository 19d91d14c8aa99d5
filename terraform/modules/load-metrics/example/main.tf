module "load_metrics" {
  source = "../../modules/load-metrics"

  project_id = "my-project"
  location   = "us-central1"
  topic      = "load-records"
  dataset    = "load_tests"
  publishers = { worker = "serviceAccount:load-worker@my-project.iam.gserviceaccount.com" }
}
