"""Validation and defaulting of built-in kinds and CustomResourceDefinitions, after `pkg/apis/*/validation` upstream. No I/O.

Reading order:
`error_list`: the errors of an object, and checks of single fields.
`object_meta`, `selectors`: metadata, label selectors and node selectors.
`pod`: pods and pod templates.
`container`, `container_env`, `resource_requirements`, `security_context`, `affinity`, `volume`: the parts of a pod spec.
`pod_update`, `pod_warnings`: updates of pods, and warnings.
`apps`, `batch`: workloads.
`core_group`, `service`, `endpoints`, `network`, `storage`, `policy`, `horizontal_pod_autoscaler`, `rbac_objects`: other kinds.
`flow_control`, `certificate_signing_request`: priority and fairness, and certificate signing requests.
`device_claim`, `resource_slice`: dynamic resource allocation.
`admission_registration`: webhook configurations and admission policies.
`api_service`: APIServices.
`crd`, `crd_schema`: CustomResourceDefinitions and their schemas.
`defaults`: defaults of built-in kinds.
"""
