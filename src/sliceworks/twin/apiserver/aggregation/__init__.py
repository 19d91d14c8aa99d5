"""Aggregation: group versions that another server serves, as APIServices name them.

api_services     the APIServices of a cluster, and the remote API of each that names a Service
controller       registers local APIServices, and runs the checks of remote APIs
remote_api       one remote API, and whether its server is available
documents        its discovery and OpenAPI documents
backend          HTTPS connections to the server behind an APIService
upgrade          connections that a request upgrades
proxy            requests of clients, passed on with their user
"""
