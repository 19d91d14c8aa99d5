output "membership" {
  description = "The cluster's membership in the fleet; null without a mesh."
  value       = one(module.mesh[*].membership)
}
