"""The twin's Terraform provider: the google provider's schema over the twin's cloud.

plugin         serves the provider over gRPC
protocol       Terraform's plugin protocol, version 5
grpc_provider  the calls of the protocol: validate, plan, apply, read, import
schema         the google provider's schema and rules, reduced to names and types
validation     what the provider's code checks beyond the schema, and which changes replace a resource
conversion     Terraform attributes to fields of Google's APIs, and back
rest_resource  a resource that is one object of a REST collection
resources      all resources and data sources
"""

REATTACH = "attached"
"""The argument that makes the provider print its socket and wait, instead of Terraform's plugin handshake."""
