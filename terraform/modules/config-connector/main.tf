# The service account of Config Connector, with only the roles that the published graphs need.

resource "google_service_account" "this" {
  project      = var.project_id
  account_id   = var.name
  display_name = "Config Connector of ${var.environment}"
}

resource "google_project_iam_member" "this" {
  for_each = var.roles

  project = var.project_id
  role    = each.value
  member  = google_service_account.this.member

  # An account that may change the project's policy could make itself owner: allow only the roles that the graphs grant.
  dynamic "condition" {
    for_each = each.value == "roles/resourcemanager.projectIamAdmin" && var.grants != null ? [sort(var.grants)] : []

    content {
      title = "only-what-graphs-give"
      # A list may have ten roles.
      expression = join(" || ", [for roles in chunklist(condition.value, 10) : "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([${join(", ", formatlist("'%s'", roles))}])"])
    }
  }
}

resource "google_service_account_iam_member" "controller" {
  service_account_id = google_service_account.this.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.workload_pool}[cnrm-system/cnrm-controller-manager]"
}
