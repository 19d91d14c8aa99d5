# The service account of the slices controller. Its custom role creates, reads and deletes node pools and nothing else; it may use the
# account of the nodes, and no other one.

locals {
  # An existing account may belong to another project: its project is in its address.
  node_account = "projects/${split(".", split("@", var.node_service_account)[1])[0]}/serviceAccounts/${var.node_service_account}"
}

resource "google_service_account" "this" {
  project      = var.project_id
  account_id   = var.name
  display_name = "Slices controller of ${var.environment}"
}

resource "google_project_iam_custom_role" "this" {
  project     = var.project_id
  role_id     = replace("${var.environment}_slices", "-", "_")
  title       = "Slices controller of ${var.environment}"
  description = "Creates and deletes node pools"

  permissions = [
    "container.clusters.get",
    "container.clusters.list",
    "container.clusters.update",
    "container.operations.get",
    "container.operations.list",
  ]
}

resource "google_project_iam_member" "this" {
  project = var.project_id
  role    = google_project_iam_custom_role.this.id
  member  = google_service_account.this.member
}

# GKE refuses a node pool whose creator may not use the account of its nodes.
resource "google_service_account_iam_member" "nodes" {
  service_account_id = local.node_account
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.this.member
}

resource "google_service_account_iam_member" "controller" {
  service_account_id = google_service_account.this.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.workload_pool}[${var.namespace}/${var.kubernetes_service_account}]"
}
