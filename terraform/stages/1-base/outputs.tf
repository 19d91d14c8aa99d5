output "base" {
  description = "What the next stages take from this one."
  value = {
    network              = module.network.network
    node_service_account = local.node_service_account
  }
}

output "buckets" {
  description = "The addresses of the buckets."
  value       = module.storage.urls
}

output "registry" {
  description = "What the names of images begin with; null without a registry."
  value       = one(module.registry[*].path)
}

output "tensorboard" {
  description = "The full name of the TensorBoard; null without one."
  value       = one(module.tensorboard[*].name)
}
