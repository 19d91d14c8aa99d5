# The cluster joins the project's fleet, and Google manages its service mesh.

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
  project  = var.project_id
  location = "global"
  name     = "servicemesh"
  labels   = var.labels
}

resource "google_gke_hub_feature_membership" "mesh" {
  project             = var.project_id
  location            = "global"
  feature             = google_gke_hub_feature.mesh.name
  membership          = google_gke_hub_membership.this.membership_id
  membership_location = google_gke_hub_membership.this.location

  mesh {
    management = "MANAGEMENT_AUTOMATIC"
  }
}
