output "base" {
  description = "Inputs of the next stages."
  value = {
    network              = module.network.network
    node_service_account = local.node_service_account
  }
}

output "buckets" {
  description = "The URLs of the buckets."
  value       = module.storage.urls
}

output "registry" {
  description = "The prefix of image names; null without a registry."
  value       = one(module.registry[*].path)
}

output "tensorboard" {
  description = "The full resource name of the TensorBoard; null without one."
  value       = one(module.tensorboard[*].name)
}
