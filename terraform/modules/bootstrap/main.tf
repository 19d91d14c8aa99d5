# What must exist before anything else can be provisioned: enabled services, an account that provisions,
# a bucket for its state, and ready-made provider and backend files for the stages that follow.

data "google_project" "this" {
  project_id = var.project_id
}

resource "google_project_service" "enabled" {
  for_each = var.services

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false
}

resource "google_service_account" "automation" {
  project      = var.project_id
  account_id   = var.service_account
  display_name = "Provisions ${var.environment}"

  depends_on = [google_project_service.enabled]
}

resource "google_project_iam_member" "automation" {
  for_each = var.roles

  project = var.project_id
  role    = each.value
  member  = google_service_account.automation.member
}

resource "google_storage_bucket" "automation" {
  project                     = var.project_id
  name                        = var.bucket.name
  location                    = var.bucket.location
  force_destroy               = var.force_destroy
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = var.labels

  versioning {
    enabled = true
  }

  depends_on = [google_project_service.enabled]
}

resource "google_storage_bucket_iam_member" "automation" {
  bucket = google_storage_bucket.automation.name
  role   = "roles/storage.objectAdmin"
  member = google_service_account.automation.member
}

# Cloud Build acts as the automation account and needs no roles of its own.
resource "google_service_account_iam_member" "cloud_build" {
  for_each = var.cloud_build ? toset(["roles/iam.serviceAccountTokenCreator", "roles/iam.serviceAccountUser"]) : toset([])

  service_account_id = google_service_account.automation.name
  role               = each.value
  member             = "serviceAccount:${data.google_project.this.number}@cloudbuild.gserviceaccount.com"

  depends_on = [google_project_service.enabled]
}

resource "google_storage_bucket_object" "providers" {
  bucket = google_storage_bucket.automation.name
  name   = "providers/providers.tf"
  content = templatefile("${path.module}/templates/providers.tf.tftpl", {
    project         = var.project_id
    region          = var.region
    service_account = google_service_account.automation.email
  })
}

resource "google_storage_bucket_object" "backend" {
  for_each = var.stages

  bucket = google_storage_bucket.automation.name
  name   = "providers/${each.value}/backend.tf"
  content = templatefile("${path.module}/templates/backend.tf.tftpl", {
    bucket          = google_storage_bucket.automation.name
    prefix          = "${var.state_prefix}/${each.value}"
    service_account = google_service_account.automation.email
  })
}

resource "google_storage_bucket_object" "variables" {
  bucket       = google_storage_bucket.automation.name
  name         = "tfvars/bootstrap.auto.tfvars.json"
  content_type = "application/json"
  content = jsonencode({
    project_id = var.project_id
    region     = var.region
    bootstrap  = { service_account = google_service_account.automation.email }
  })
}
