"""Tables for `kubectl get`.

Reading order:
`table_columns`: the columns of a resource and the row of an object.
`cells`: printers, and cells that many kinds share.
`core_kinds`, `pod_kinds`, `workload_kinds`, `network_kinds`, `storage_kinds`: the printers of the built-in kinds.
`jsonpath`: the JSONPath dialect of additionalPrinterColumns.
"""
