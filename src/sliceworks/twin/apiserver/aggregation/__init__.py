"""Aggregation: group versions that another server serves, as APIServices name them.

api_services        the APIServices of a cluster, and the remote API of each that names a Service
controller          registers local APIServices, and runs the checks of remote APIs
remote_api          one remote API, and whether its server is available
backend             HTTPS connections to the server behind an APIService
backend_documents   its discovery and OpenAPI documents
forwarder           requests of clients, passed on with their user
upgrade             connections that a request upgrades
"""
