"""Shards an array over all chips of all slices and sums it."""

import os

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.distributed.initialize()
mesh = Mesh(jax.devices(), ("chips",))
rows = jax.device_put(jnp.arange(jax.device_count() * 128.0), NamedSharding(mesh, PartitionSpec("chips")))
total = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, PartitionSpec()))(rows)
slices = os.environ.get("MEGASCALE_NUM_SLICES", "1")
print(f"host {jax.process_index()} of {jax.process_count()}, {slices} slices, {jax.device_count()} chips, sum {total}")
