"""Google's services, one module or package each, discovered by `twin.cloud.backends`.

A module declares SERVICE and RESOURCES (see `core.service`), or defines `create(context)` for a service with its own behavior.
`container` (GKE) is created by `backends` itself, because it needs a Kubernetes client.

cloudresourcemanager, cloudbilling, serviceusage   projects, billing, enabled services
iam, iam_roles, iamcredentials, openidconnect      service accounts, custom roles, access tokens, callers
compute, container                                 networks and instance groups; GKE
storage, artifactregistry, secretmanager           buckets, images, secrets
pubsub, bigquery                                   topics and subscriptions; datasets, tables and queries
cloudbuild, gkehub, aiplatform                     builds, fleets, TensorBoard
"""
