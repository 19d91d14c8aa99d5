output "cluster" {
  description = "Inputs of the next stages and of clients."
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
  description = "Topology and number of hosts of the TPU pools, by name."
  value       = module.node_pools.slices
}

output "identities" {
  description = "The e-mail addresses of the service accounts of workloads."
  value       = merge({ for name, identity in module.workload_identity : name => identity.email }, { for identity in module.config_connector : var.config_connector.name => identity.email }, { for identity in module.slices_controller : var.slices_controller.name => identity.email })
}

output "kubernetes_service_accounts" {
  description = "The namespace and the name of the Kubernetes service account of each workload identity."
  value       = { for name, identity in var.identities : name => { namespace = identity.namespace, name = identity.kubernetes_service_account } }
}
