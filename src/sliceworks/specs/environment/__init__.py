"""Environment: project, network, cluster, node pools, identities, storage, add-ons, teams and queues.

document     the document, and validation across its parts
cluster      state, network, cluster and node pools
services     identities, buckets, registry, load metrics and self-service
teams        teams, queues and add-ons
field_types  names and addresses, validated by Google Cloud's rules
"""

from sliceworks.specs.environment.document import Environment, EnvironmentSpec

__all__ = ["Environment", "EnvironmentSpec"]
