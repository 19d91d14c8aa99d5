"""The parts that all Google services share.

cloud_server      dispatches requests: authentication, faults, response
authorization     IAM: permissions that roles grant to a caller
workload_access   what Kubernetes service accounts may do as Google service accounts
enabled_services  the enabled services of projects
routes            path templates, and the calls that they match
schema            validates bodies against Google's messages
service           services, and services declared as data
collection        resource types with the standard methods, pagination and preconditions
iam_policy        IAM policies of resources
operations        long-running operations and response styles
document_store    durable documents
faults            injected faults
exceptions        Google's error codes and error responses
"""
