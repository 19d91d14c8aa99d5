output "pools" {
  description = "The names of the pools."
  value       = sort([for pool in google_container_node_pool.this : pool.name])
}

output "slices" {
  description = "Topology and number of hosts of the TPU pools, by name."
  value       = { for name, pool in var.pools : name => { topology = pool.tpu.topology, hosts = pool.tpu.hosts } if pool.tpu != null }
}
