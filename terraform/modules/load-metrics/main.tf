# Load test records: a topic with a schema rejects invalid messages, and a BigQuery subscription writes them to a table
# without a program in between.

data "google_project" "this" {
  project_id = var.project_id
}

locals {
  columns = jsondecode(file("${path.module}/columns.json"))
  agent   = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"

  # Columns that Pub/Sub writes with write_metadata.
  metadata = [
    { name = "subscription_name", type = "STRING" },
    { name = "message_id", type = "STRING" },
    { name = "publish_time", type = "TIMESTAMP" },
    { name = "data", type = "JSON" },
    { name = "attributes", type = "JSON" },
  ]
}

resource "google_pubsub_schema" "this" {
  project    = var.project_id
  name       = coalesce(var.schema, "${var.topic}-schema")
  type       = "PROTOCOL_BUFFER"
  definition = file("${path.module}/record.proto")
}

resource "google_pubsub_topic" "this" {
  project = var.project_id
  name    = var.topic
  labels  = var.labels

  schema_settings {
    schema   = google_pubsub_schema.this.id
    encoding = "JSON"
  }
}

resource "google_bigquery_dataset" "this" {
  project                    = var.project_id
  dataset_id                 = var.dataset
  location                   = var.location
  description                = "Load test records"
  delete_contents_on_destroy = var.force_destroy
  labels                     = var.labels
}

resource "google_bigquery_table" "this" {
  project             = var.project_id
  dataset_id          = google_bigquery_dataset.this.dataset_id
  table_id            = var.table
  deletion_protection = var.deletion_protection
  labels              = var.labels
  schema              = jsonencode(concat(local.columns, [for column in local.metadata : merge(column, { mode = "NULLABLE" })]))

  time_partitioning {
    type  = "DAY"
    field = "publish_time"
  }
}

resource "google_bigquery_dataset_iam_member" "agent" {
  for_each = toset(["roles/bigquery.dataEditor", "roles/bigquery.metadataViewer"])

  project    = var.project_id
  dataset_id = google_bigquery_dataset.this.dataset_id
  role       = each.value
  member     = local.agent

  # Google creates the service agent on the first use of Pub/Sub: a binding before that is refused.
  depends_on = [google_pubsub_topic.this]
}

resource "google_pubsub_subscription" "this" {
  project = var.project_id
  name    = coalesce(var.subscription, "${var.topic}-to-bigquery")
  topic   = google_pubsub_topic.this.id
  labels  = var.labels

  bigquery_config {
    table               = "${var.project_id}.${google_bigquery_dataset.this.dataset_id}.${google_bigquery_table.this.table_id}"
    use_topic_schema    = true
    drop_unknown_fields = true
    write_metadata      = true
  }

  depends_on = [google_bigquery_dataset_iam_member.agent]
}

resource "google_pubsub_topic_iam_member" "publishers" {
  for_each = var.publishers

  project = var.project_id
  topic   = google_pubsub_topic.this.name
  role    = "roles/pubsub.publisher"
  member  = each.value
}
