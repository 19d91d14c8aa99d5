# Prerequisites of all other stages: enabled services, the automation account, the bucket for states,
# and prepared provider and backend files for the other stages.

# The provider reads the project after it has enabled a service: the API of projects comes first.
resource "google_project_service" "resource_manager" {
  project            = var.project_id
  service            = "cloudresourcemanager.googleapis.com"
  disable_on_destroy = false
}

moved {
  from = google_project_service.enabled["cloudresourcemanager.googleapis.com"]
  to   = google_project_service.resource_manager
}

resource "google_project_service" "enabled" {
  for_each = setsubtract(var.services, ["cloudresourcemanager.googleapis.com"])

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false

  depends_on = [google_project_service.resource_manager]
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

# The account may change the project's policy, but only grant the roles that this environment needs: it cannot make itself owner.
resource "google_project_iam_member" "grants" {
  project = var.project_id
  role    = "roles/resourcemanager.projectIamAdmin"
  member  = google_service_account.automation.member

  condition {
    title = "only-roles-of-the-environment"
    # A list may have ten roles; Terraform grants one at a time.
    expression = join(" || ", [for roles in chunklist(sort(var.grants), 10) : "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([${join(", ", formatlist("'%s'", roles))}])"])
  }
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

# Image builds run as an account of their own, which may do nothing else.
resource "google_service_account" "build" {
  count = var.build_account == null ? 0 : 1

  project      = var.project_id
  account_id   = var.build_account
  display_name = "Builds images of ${var.environment}"

  depends_on = [google_project_service.enabled]
}

resource "google_project_iam_member" "build" {
  for_each = var.build_account == null ? [] : toset(["roles/artifactregistry.writer", "roles/logging.logWriter"])

  project = var.project_id
  role    = each.value
  member  = google_service_account.build[0].member
}

resource "google_storage_bucket_iam_member" "build" {
  count = var.build_account == null ? 0 : 1

  bucket = google_storage_bucket.automation.name
  role   = "roles/storage.objectViewer"
  member = google_service_account.build[0].member
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
