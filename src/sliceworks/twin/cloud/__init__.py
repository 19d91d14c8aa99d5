"""Google's REST APIs on the twin.

backends     builds the cloud of a twin from all services
core         what services share: routes, schema, collections, operations, faults
google       one module or package per Google service; a service with plain resources is declared in one file
pod_storage  Cloud Storage as simulated pods use it
"""
