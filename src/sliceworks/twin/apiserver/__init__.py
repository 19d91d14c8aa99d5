"""The twin's Kubernetes API: the behaviour of kube-apiserver that kubectl and client libraries rely on.

Reading order, along one write from its HTTP request to its watch event:
`http_server`: HTTP/1.1 and TLS.
`generic_server`: authenticate, authorize and route a request.
`request_info`: what a request addresses, its options and common errors.
`auth`: users and RBAC.
`registry`: resources, and one strategy per built-in kind.
`codec`: bodies in and out (`yaml_codec`, `protobuf`, `protobuf_encoder`, `version_conversion`).
`handlers`: one module per verb; `streaming`: sessions of exec, attach, port-forward and proxy (`service_endpoints`).
`fieldmanager`, `patch`: field ownership and patches.
`admission`: plugins and webhooks (`pod_resources`, `webhook_client`, `client_errors`, `conversion_webhook`).
`aggregation`: group versions that another server serves.
`validation`: rules of the built-in kinds.
`selection`: label and field selectors.
`printers`: tables for `kubectl get`.
`non_resource`: other paths (`discovery`, `openapi`).
`bootstrap`: the objects of a new cluster.
"""
