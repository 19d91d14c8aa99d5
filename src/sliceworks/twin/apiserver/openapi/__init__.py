"""The OpenAPI documents that the API server publishes.

Reading order:
`documents`: the documents of all served resources, and their cache.
`v3`: the OpenAPI v3 document of a group version.
`v2`: the OpenAPI v2 document, as JSON or protobuf.
`descriptions`: the descriptions of built-in kinds in both.
"""
