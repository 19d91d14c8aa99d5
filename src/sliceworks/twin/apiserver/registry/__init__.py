"""The registry: which resources the API serves, and how each kind is validated, prepared, stored and printed.

Reading order:
`resources`: resources, versions, strategies, and the registry that finds them by URL.
`kinds`: one strategy per built-in kind.
`strategies`: PrepareForCreate and PrepareForUpdate of the built-in kinds.
`device_strategy`: dynamic resource allocation.
`service_allocator`: cluster IPs and node ports of Services.
`service_families`: IP families of Services.
`crd_strategy`: defaults, stored versions and conditions of CustomResourceDefinitions.
`api_service_strategy`: names, priorities and conditions of APIServices.
`crd_registry`, `crd_controller`: custom resources.
"""
