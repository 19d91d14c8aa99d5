# Registers the cluster in the project's fleet with a managed service mesh. The feature exists once per project and outlives the
# environment: others may use it. `sliceworks env apply` imports an existing one; with plain Terraform, set create_feature to false.

resource "google_gke_hub_membership" "this" {
  project       = var.project_id
  membership_id = var.name
  location      = "global"
  labels        = var.labels

  endpoint {
    gke_cluster {
      resource_link = "//container.googleapis.com/${var.cluster_id}"
    }
  }
}

resource "google_gke_hub_feature" "mesh" {
  count = var.create_feature ? 1 : 0

  project         = var.project_id
  location        = "global"
  name            = "servicemesh"
  deletion_policy = "ABANDON"
}

resource "google_gke_hub_feature_membership" "mesh" {
  project             = var.project_id
  location            = "global"
  feature             = "servicemesh"
  membership          = google_gke_hub_membership.this.membership_id
  membership_location = google_gke_hub_membership.this.location

  mesh {
    management = "MANAGEMENT_AUTOMATIC"
  }

  depends_on = [google_gke_hub_feature.mesh]
}
