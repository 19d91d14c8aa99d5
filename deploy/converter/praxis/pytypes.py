"""Types of arrays."""

import jax

JTensor = PRNGKey = jax.Array
