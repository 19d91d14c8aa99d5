output "cluster" {
  description = "What the next stages, and whoever connects, take from this one."
  value = {
    id             = module.cluster.id
    name           = module.cluster.name
    location       = module.cluster.location
    endpoint       = module.cluster.endpoint
    ca_certificate = module.cluster.ca_certificate
  }
}

output "pools" {
  description = "The names of the node pools."
  value       = module.node_pools.pools
}

output "slices" {
  description = "The TPU pools: topology and number of hosts by name."
  value       = module.node_pools.slices
}

output "identities" {
  description = "The e-mail addresses of the accounts that pods act as."
  value       = merge({ for name, identity in module.workload_identity : name => identity.email }, { for identity in module.config_connector : var.config_connector.name => identity.email })
}
