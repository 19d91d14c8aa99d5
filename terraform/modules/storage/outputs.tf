output "urls" {
  description = "The URL of each bucket, such as gs://name."
  value       = { for name, bucket in google_storage_bucket.this : name => bucket.url }
}
