# A Google service account that the pods of one Kubernetes service account impersonate. The namespace and the Kubernetes
# service account are not in this state, so that destroy never waits for a namespace.

locals {
  create = var.existing == null
  email  = local.create ? google_service_account.this[0].email : var.existing
  name   = local.create ? google_service_account.this[0].name : "projects/${var.project_id}/serviceAccounts/${var.existing}"
}

resource "google_service_account" "this" {
  count = local.create ? 1 : 0

  project      = var.project_id
  account_id   = var.name
  display_name = "${var.namespace}/${var.kubernetes_service_account}"
}

resource "google_project_iam_member" "this" {
  for_each = local.create ? var.roles : []

  project = var.project_id
  role    = each.value
  member  = "serviceAccount:${local.email}"
}

resource "google_service_account_iam_member" "workloads" {
  service_account_id = local.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.workload_pool}[${var.namespace}/${var.kubernetes_service_account}]"
}

locals {
  # objectAdmin includes reading; both need the permission to list.
  objects = { for bucket, access in var.buckets : bucket => access == "write" ? "roles/storage.objectAdmin" : "roles/storage.objectViewer" }
}

resource "google_storage_bucket_iam_member" "list" {
  for_each = var.buckets

  bucket = each.key
  role   = "roles/storage.legacyBucketReader"
  member = "serviceAccount:${local.email}"
}

resource "google_storage_bucket_iam_member" "objects" {
  for_each = local.objects

  bucket = each.key
  role   = each.value
  member = "serviceAccount:${local.email}"
}
