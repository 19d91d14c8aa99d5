"""The accelerator catalogue: TPU and GPU types, machines and topologies, derived from a few rules."""
