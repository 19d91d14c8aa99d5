"""Bad requests as data; the contract suite records what the real kube-apiserver answers to each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.http import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, YAML
from tests.support.objects import config_map, deployment, pod


@dataclass
class Bad:
    """A bad request; `path` is relative to the test's namespace unless it starts with a slash."""

    id: str
    method: str
    path: str
    body: Any = None
    kind: str | None = JSON
    query: dict[str, Any] = field(default_factory=dict)


def named(name: str, **metadata: Any) -> dict[str, Any]:
    """Build a ConfigMap with this name."""
    return config_map(name, **metadata)


def broken_pod(**spec: Any) -> dict[str, Any]:
    """Build a pod with this spec."""
    body = pod()
    body["spec"].update(spec)
    return body


def container(**fields: Any) -> dict[str, Any]:
    """Build a pod whose container has extra fields."""
    return broken_pod(containers=[{"name": "main", "image": "i", **fields}])


BODIES = [
    Bad("empty body", "POST", "configmaps", b""),
    Bad("no JSON", "POST", "configmaps", b"{"),
    Bad("cut JSON", "POST", "configmaps", b'{"metadata": {"name": "x"'),
    Bad("trailing JSON", "POST", "configmaps", b'{"metadata": {"name": "x"}} {}'),
    Bad("misspelled JSON literal", "POST", "configmaps", b'{"metadata": nope}'),
    Bad("literal with an ending", "POST", "configmaps", b'{"metadata": trueish}'),
    Bad("unfinished JSON literal", "POST", "configmaps", b'{"immutable": fals'),
    Bad("JSON list", "POST", "configmaps", []),
    Bad("JSON text", "POST", "configmaps", b'"x"'),
    Bad("JSON null", "POST", "configmaps", b"null"),
    Bad("not UTF-8", "POST", "configmaps", b'{"metadata": {"name": "\xff"}}'),
    Bad("no YAML", "POST", "configmaps", b"a: b: c", YAML),
    Bad("unknown content type", "POST", "configmaps", b"x", "text/plain"),
    Bad("form content type", "POST", "configmaps", b"x", "application/x-www-form-urlencoded"),
    Bad("broken protobuf", "POST", "configmaps", b"k8s\x00garbage", "application/vnd.kubernetes.protobuf"),
    Bad("other kind", "POST", "configmaps", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}),
    Bad("other version", "POST", "configmaps", {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    Bad("unknown kind", "POST", "configmaps", {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}),
    Bad("wrong type of metadata", "POST", "configmaps", {"metadata": "x"}),
    Bad("wrong type of name", "POST", "configmaps", {"metadata": {"name": 1}}),
    Bad("wrong type of labels", "POST", "configmaps", {"metadata": {"name": "x", "labels": {"a": 1}}}),
    Bad("wrong type of data", "POST", "configmaps", {"metadata": {"name": "x"}, "data": {"a": 1}}),
    Bad("wrong type deep inside", "POST", "pods", container(ports=[{"containerPort": "eighty"}])),
    Bad("float for an integer", "POST", "pods", container(ports=[{"containerPort": 1.5}])),
    Bad(
        "huge number",
        "POST",
        "pods",
        b'{"metadata":{"name":"p"},"spec":{"containers":[{"name":"m","image":"i","ports":[{"containerPort":4294967296}]}]}}',
    ),
    Bad("list for an object", "POST", "pods", broken_pod(containers={"name": "main"})),
    Bad("bad quantity", "POST", "pods", container(resources={"limits": {"cpu": "many"}})),
    Bad("bad time", "POST", "configmaps", named("x", creationTimestamp="yesterday")),
    Bad("bad base64", "POST", "secrets", {"metadata": {"name": "s"}, "data": {"a": "%%%"}}),
]

NAMES = [
    Bad("no name", "POST", "configmaps", {"metadata": {}}),
    Bad("upper case name", "POST", "configmaps", named("Upper")),
    Bad("name with spaces", "POST", "configmaps", named("a b")),
    Bad("long name", "POST", "configmaps", named("x" * 254)),
    Bad("service name", "POST", "services", {"metadata": {"name": "1bad"}, "spec": {"ports": [{"port": 80}]}}),
    Bad("namespace name", "POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}}),
    Bad("role name", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "a/b"}}),
    Bad("label key", "POST", "configmaps", named("x", labels={"bad key": "v"})),
    Bad("label value", "POST", "configmaps", named("x", labels={"k": "bad value!"})),
    Bad("long label value", "POST", "configmaps", named("x", labels={"k": "v" * 64})),
    Bad("annotation key", "POST", "configmaps", named("x", annotations={"bad key": "v"})),
    Bad("finalizer", "POST", "configmaps", named("x", finalizers=["nodomain"])),
    Bad("owner without uid", "POST", "configmaps", named("x", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p"}])),
    Bad(
        "two controllers",
        "POST",
        "configmaps",
        named(
            "x", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in ("a", "b")]
        ),
    ),
    Bad("namespace mismatch", "POST", "configmaps", named("x", namespace="other")),
    Bad("name mismatch", "PUT", "configmaps/kube-root-ca.crt", named("other")),
    Bad("version on create", "POST", "configmaps", named("x", resourceVersion="5")),
    Bad(
        "version that is not a number",
        "PUT",
        "serviceaccounts/default",
        {"metadata": {"name": "default", "resourceVersion": "abc"}},
    ),
    Bad("data key", "POST", "configmaps", config_map("x", {"bad key": "v"})),
]

PODS = [
    Bad("no containers", "POST", "pods", broken_pod(containers=[])),
    Bad("no spec", "POST", "pods", {"metadata": {"name": "p"}}),
    Bad("no image", "POST", "pods", broken_pod(containers=[{"name": "main"}])),
    Bad("same container twice", "POST", "pods", broken_pod(containers=[{"name": "a", "image": "i"}, {"name": "a", "image": "i"}])),
    Bad("container name", "POST", "pods", broken_pod(containers=[{"name": "A_b", "image": "i"}])),
    Bad("restart policy", "POST", "pods", broken_pod(restartPolicy="Sometimes")),
    Bad("pull policy", "POST", "pods", container(imagePullPolicy="Maybe")),
    Bad("port", "POST", "pods", container(ports=[{"containerPort": 70000}])),
    Bad("protocol", "POST", "pods", container(ports=[{"containerPort": 80, "protocol": "HTTP"}])),
    Bad("environment name", "POST", "pods", container(env=[{"name": "a=b", "value": "x"}])),
    Bad("request above limit", "POST", "pods", container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
    Bad("negative resource", "POST", "pods", container(resources={"requests": {"cpu": "-1"}})),
    Bad("missing volume", "POST", "pods", container(volumeMounts=[{"name": "nope", "mountPath": "/x"}])),
    Bad("two volume sources", "POST", "pods", broken_pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}])),
    Bad("toleration operator", "POST", "pods", broken_pod(tolerations=[{"key": "a", "operator": "Like"}])),
    Bad("probe without action", "POST", "pods", container(livenessProbe={"periodSeconds": 3})),
    Bad("extended resource without limit", "POST", "pods", container(resources={"requests": {"google.com/tpu": "4"}})),
    Bad("fractional extended resource", "POST", "pods", container(resources={"limits": {"google.com/tpu": "1500m"}})),
    Bad("node selector value", "POST", "pods", broken_pod(nodeSelector={"k": "bad value!"})),
    Bad(
        "affinity operator",
        "POST",
        "pods",
        broken_pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}]
                    }
                }
            }
        ),
    ),
    Bad("hostname", "POST", "pods", broken_pod(hostname="Bad_Name")),
]

WORKLOADS = [
    Bad(
        "selector does not match",
        "POST",
        "apps/v1/deployments",
        {**deployment(), "spec": {**deployment()["spec"], "selector": {"matchLabels": {"app": "other"}}}},
    ),
    Bad(
        "no selector",
        "POST",
        "apps/v1/deployments",
        {"metadata": {"name": "d"}, "spec": {"template": deployment()["spec"]["template"]}},
    ),
    Bad("negative replicas", "POST", "apps/v1/deployments", deployment(replicas=-1)),
    Bad(
        "strategy", "POST", "apps/v1/deployments", {**deployment(), "spec": {**deployment()["spec"], "strategy": {"type": "Hope"}}}
    ),
    Bad(
        "job restart policy",
        "POST",
        "batch/v1/jobs",
        {"metadata": {"name": "j"}, "spec": {"template": deployment()["spec"]["template"]}},
    ),
    Bad(
        "negative parallelism",
        "POST",
        "batch/v1/jobs",
        {
            "metadata": {"name": "j"},
            "spec": {
                "parallelism": -1,
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}},
            },
        },
    ),
    Bad(
        "schedule",
        "POST",
        "batch/v1/cronjobs",
        {
            "metadata": {"name": "j"},
            "spec": {
                "schedule": "every day",
                "jobTemplate": {
                    "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
                },
            },
        },
    ),
    Bad("service without ports", "POST", "services", {"metadata": {"name": "s"}, "spec": {}}),
    Bad("service port names", "POST", "services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}, {"port": 81}]}}),
    Bad("service type", "POST", "services", {"metadata": {"name": "s"}, "spec": {"type": "Teleport", "ports": [{"port": 80}]}}),
    Bad(
        "cluster address", "POST", "services", {"metadata": {"name": "s"}, "spec": {"clusterIP": "1.2.3", "ports": [{"port": 80}]}}
    ),
    Bad(
        "claim without size",
        "POST",
        "persistentvolumeclaims",
        {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}},
    ),
    Bad(
        "access mode",
        "POST",
        "persistentvolumeclaims",
        {"metadata": {"name": "c"}, "spec": {"accessModes": ["Some"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    Bad(
        "budget with both",
        "POST",
        "policy/v1/poddisruptionbudgets",
        {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
    ),
    Bad(
        "autoscaler bounds",
        "POST",
        "autoscaling/v2/horizontalpodautoscalers",
        {
            "metadata": {"name": "h"},
            "spec": {"minReplicas": 5, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}},
        },
    ),
    Bad("ingress without rules", "POST", "networking.k8s.io/v1/ingresses", {"metadata": {"name": "i"}, "spec": {}}),
    Bad(
        "priority too high", "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "x"}, "value": 2000000001}
    ),
    Bad("storage class without provisioner", "POST", "/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "x"}}),
    Bad(
        "lease duration", "POST", "coordination.k8s.io/v1/leases", {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}
    ),
    Bad(
        "role rule without verbs",
        "POST",
        "rbac.authorization.k8s.io/v1/roles",
        {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]},
    ),
    Bad("binding without role", "POST", "rbac.authorization.k8s.io/v1/rolebindings", {"metadata": {"name": "r"}, "subjects": []}),
    Bad("quota below zero", "POST", "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "-1"}}}),
    Bad("secret of a type without data", "POST", "secrets", {"metadata": {"name": "s"}, "type": "kubernetes.io/tls"}),
]

PATCHES = [
    Bad("JSON patch that is not a list", "PATCH", "serviceaccounts/default", {"op": "add"}, JSON_PATCH),
    Bad("JSON patch unknown op", "PATCH", "serviceaccounts/default", [{"op": "jump", "path": "/x"}], JSON_PATCH),
    Bad("JSON patch missing path", "PATCH", "serviceaccounts/default", [{"op": "remove", "path": "/nothing"}], JSON_PATCH),
    Bad(
        "JSON patch failed test",
        "PATCH",
        "serviceaccounts/default",
        [{"op": "test", "path": "/metadata/name", "value": "x"}],
        JSON_PATCH,
    ),
    Bad("JSON patch bad index", "PATCH", "serviceaccounts/default", [{"op": "add", "path": "/secrets/5", "value": {}}], JSON_PATCH),
    Bad("merge patch that is a list", "PATCH", "serviceaccounts/default", [], MERGE_PATCH),
    Bad("merge patch cut", "PATCH", "serviceaccounts/default", b'{"a":', MERGE_PATCH),
    Bad("merge patch empty", "PATCH", "serviceaccounts/default", b"", MERGE_PATCH),
    Bad("strategic patch cut", "PATCH", "serviceaccounts/default", b"{", STRATEGIC_PATCH),
    Bad("strategic wrong type", "PATCH", "serviceaccounts/default", {"secrets": "x"}, STRATEGIC_PATCH),
    Bad("strategic bad directive", "PATCH", "serviceaccounts/default", {"metadata": {"$patch": "explode"}}, STRATEGIC_PATCH),
    Bad("apply without kind", "PATCH", "configmaps/x", {"metadata": {"name": "x"}}, APPLY_PATCH, {"fieldManager": "t"}),
    Bad(
        "apply of another name",
        "PATCH",
        "configmaps/x",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y"}},
        APPLY_PATCH,
        {"fieldManager": "t"},
    ),
    Bad(
        "apply of another kind",
        "PATCH",
        "configmaps/x",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}},
        APPLY_PATCH,
        {"fieldManager": "t"},
    ),
    Bad("apply broken YAML", "PATCH", "configmaps/x", b"a: [", APPLY_PATCH, {"fieldManager": "t"}),
]

OPTIONS = [
    Bad("version that is not a number on get", "GET", "configmaps/kube-root-ca.crt", query={"resourceVersion": "abc"}),
    Bad("version that is not a number on list", "GET", "configmaps", query={"resourceVersion": "abc"}),
    Bad("negative version", "GET", "configmaps", query={"resourceVersion": "-1"}),
    Bad("version that is not a number on watch", "GET", "configmaps", query={"resourceVersion": "abc", "watch": "1"}),
    Bad("match without version", "GET", "configmaps", query={"resourceVersionMatch": "Exact"}),
    Bad("unknown match", "GET", "configmaps", query={"resourceVersion": "1", "resourceVersionMatch": "Close"}),
    Bad("exact zero", "GET", "configmaps", query={"resourceVersion": "0", "resourceVersionMatch": "Exact"}),
    Bad("continue with version", "GET", "configmaps", query={"continue": "x", "resourceVersion": "5"}),
    Bad("limit that is not a number", "GET", "configmaps", query={"limit": "many"}),
    Bad("timeout that is not a number", "GET", "configmaps", query={"timeoutSeconds": "soon", "watch": "1"}),
    Bad("dry run", "POST", "configmaps", config_map("x"), query={"dryRun": "Some"}),
    Bad("field manager too long", "POST", "configmaps", config_map("x"), query={"fieldManager": "m" * 129}),
    Bad("field validation", "POST", "configmaps", config_map("x"), query={"fieldValidation": "Perhaps"}),
    Bad("grace that is not a number", "DELETE", "configmaps/x", query={"gracePeriodSeconds": "long"}),
    Bad(
        "delete options",
        "DELETE",
        "configmaps/kube-root-ca.crt",
        {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": 5},
    ),
    Bad("propagation", "DELETE", "configmaps/kube-root-ca.crt", query={"propagationPolicy": "Sideways"}),
    Bad("unknown resource", "GET", "nothings"),
    Bad("method on a collection", "PUT", "configmaps", config_map()),
    Bad("method on an object", "POST", "configmaps/x", config_map()),
    Bad("patch of a collection", "PATCH", "configmaps", {}, MERGE_PATCH),
    Bad("unknown method", "BREW", "configmaps"),
    Bad("cluster resource in a namespace", "GET", "nodes"),
]

ORDER = [
    Bad("dot for a name", "GET", "configmaps/."),
    Bad("dots for a name", "DELETE", "configmaps/%2e%2e"),
    Bad("update without a name", "PUT", "configmaps/x", {"metadata": {}}),
    Bad("update of the absent under another name", "PUT", "configmaps/x", named("y")),
    Bad("broken JSON patch of the absent", "PATCH", "configmaps/x", b"[", JSON_PATCH),
    Bad("broken merge patch of the absent", "PATCH", "configmaps/x", b"{", MERGE_PATCH),
    Bad("broken strategic patch of the absent", "PATCH", "configmaps/x", b"{", STRATEGIC_PATCH),
    Bad("patch options before the patch", "PATCH", "configmaps/x", b"{", MERGE_PATCH, {"fieldValidation": "Perhaps"}),
    Bad("media type before options", "POST", "configmaps", b"x", "text/plain", {"dryRun": "Some"}),
    Bad("version beyond 64 bits", "GET", "configmaps", query={"resourceVersion": "999999999999999999999999"}),
    Bad("limit beyond 64 bits", "GET", "configmaps", query={"limit": "99999999999999999999"}),
    Bad(
        "job without metadata",
        "POST",
        "batch/v1/jobs",
        {"spec": {"template": {"spec": {"containers": [], "restartPolicy": "Never"}}}},
    ),
    Bad("scale of another kind", "PUT", "apps/v1/deployments/x/scale", deployment("x")),
    Bad(
        "retain keys that are not a list",
        "PATCH",
        "serviceaccounts/default",
        {"metadata": {"$retainKeys": {"a": 1}}},
        STRATEGIC_PATCH,
    ),
    Bad("initial events without a watch", "GET", "configmaps", query={"sendInitialEvents": "true"}),
]

CASES = [*ORDER, *BODIES, *NAMES, *PODS, *WORKLOADS, *PATCHES, *OPTIONS]
