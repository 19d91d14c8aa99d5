"""Defaults and rejections of the default admission plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.objects import config_map, pod
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def with_resources(name: str = "p", **resources: Object) -> Object:
    created = pod(name)
    created["spec"]["containers"][0]["resources"] = resources
    return created


def test_pod_gets_account_token_priority_and_tolerations(api: Api, core: str) -> None:
    spec = api.post(f"{core}/pods", pod("p")).ok(201).json["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    (volume,) = spec["volumes"]
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
                }
            },
        ],
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_admission_defaults_have_no_field_manager(api: Api, core: str) -> None:
    (entry,) = api.post(f"{core}/pods", pod("p")).ok(201).json["metadata"]["managedFields"]
    assert not {"f:volumes", "f:tolerations", "f:serviceAccountName", "f:priority"} & set(entry["fieldsV1"]["f:spec"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"serviceAccountName": "nope"}, 'error looking up service account {ns}/nope: serviceaccount "nope" not found'),
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; "
                "priority admission controller computed 0 from the given PriorityClass name"
            ),
        ),
        ({"runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
        ({"overhead": {"cpu": "1"}}, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
    ],
)
def test_invalid_pods_are_rejected(api: Api, *, core: str, ns: str, fields: Object, message: str) -> None:
    created = pod("p")
    created["spec"].update(fields)
    api.post(f"{core}/pods", created).refused(403, "Forbidden", f'pods "p" is forbidden: {message.replace("{ns}", ns)}')


def test_generated_name_is_unknown_before_validation(api: Api, core: str) -> None:
    created = pod("p")
    created["metadata"] = {"generateName": "p-"}
    created["spec"]["priorityClassName"] = "nope"
    api.post(f"{core}/pods", created).refused(403, "Forbidden", 'pods "p-" is forbidden: no PriorityClass with name nope was found')


def test_priority_class_sets_priority(api: Api, core: str, unique_name: str) -> None:
    api.post(CLASSES, {"metadata": {"name": unique_name}, "value": 1000, "preemptionPolicy": "Never"}).ok(201)

    def made() -> Object:
        body = pod("p")
        body["spec"]["priorityClassName"] = unique_name
        spec: Object = api.post(f"{core}/pods", body, {"dryRun": "All"}).json.get("spec", {})
        return spec

    assert eventually(lambda: (made().get("priority"), made().get("preemptionPolicy")) == (1000, "Never"))
    assert {
        item["metadata"]["name"]: item["value"] for item in api.get(CLASSES).json["items"] if "system-" in item["metadata"]["name"]
    } == {
        "system-cluster-critical": 2000000000,
        "system-node-critical": 2000001000,
    }


def test_new_node_has_not_ready_taint(api: Api, unique_name: str) -> None:
    node = api.post("/api/v1/nodes", {"metadata": {"name": unique_name}}).ok(201).json
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    api.delete(f"/api/v1/nodes/{unique_name}").ok(200)


def test_limit_range_sets_defaults_and_limits(api: Api, core: str) -> None:
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "1"},
            "defaultRequest": {"cpu": "500m"},
            "max": {"cpu": "2"},
            "min": {"memory": "1Mi"},
        },
        {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}},
    ]
    api.post(f"{core}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}}).ok(201)
    good = with_resources(requests={"memory": "2Mi"})
    filled = "LimitRanger plugin set: cpu request for container main; cpu limit for container main"

    def annotation() -> str:
        metadata = api.post(f"{core}/pods", good, {"dryRun": "All"}).json.get("metadata", {})
        return str(metadata.get("annotations", {}).get("kubernetes.io/limit-ranger"))

    assert eventually(lambda: annotation() == filled)
    bad = with_resources(requests={"memory": "1Ki"}, limits={"cpu": "3"})
    api.post(f"{core}/pods", bad).refused(
        403,
        "Forbidden",
        'pods "p" is forbidden: [minimum memory usage per Container is 1Mi, but request is 1Ki, '
        "maximum cpu usage per Container is 2, but limit is 3]",
    )
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
    api.post(f"{core}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec}).refused(
        403,
        "Forbidden",
        'persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 20Gi',
    )


def used(api: Api, core: str) -> Object:
    status: Object = api.get(f"{core}/resourcequotas/q").json.get("status", {})
    result: Object = status.get("used", {})
    return result


@pytest.mark.usefixtures("published")
def test_quota_counts_rejects_and_releases(api: Api, core: str) -> None:
    hard = {"pods": "1", "requests.cpu": "2", "requests.google.com/tpu": "8", "count/configmaps": "100"}
    api.post(f"{core}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}).ok(201)
    assert eventually(lambda: used(api, core).get("pods") == "0")
    tpu = {"requests": {"cpu": "500m", "google.com/tpu": "4"}, "limits": {"google.com/tpu": "4"}}
    assert eventually(lambda: api.post(f"{core}/pods", with_resources("a", **tpu)).status == 201)
    seen = used(api, core)
    assert (seen["pods"], seen["requests.cpu"], seen["requests.google.com/tpu"]) == ("1", "500m", "4")
    api.post(f"{core}/pods", with_resources("b", requests={"cpu": "3"})).refused(
        403,
        "Forbidden",
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=3, used: pods=1,requests.cpu=500m, '
        "limited: pods=1,requests.cpu=2",
    )
    api.post(f"{core}/pods", pod("c")).refused(
        403, "Forbidden", 'pods "c" is forbidden: failed quota: q: must specify requests.cpu for: main'
    )
    before = int(seen["count/configmaps"])
    api.post(f"{core}/configmaps", config_map("m"), {"dryRun": "All"}).ok(201)
    api.post(f"{core}/configmaps", config_map("m")).ok(201)
    assert int(used(api, core)["count/configmaps"]) == before + 1
    api.delete(f"{core}/pods/a", {"gracePeriodSeconds": 0}).ok(200)
    assert eventually(lambda: used(api, core)["pods"] == "0")


def test_claims_and_volumes_have_protection_finalizers(api: Api, core: str, unique_name: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = api.post(f"{core}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec}).ok(201).json
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    created = api.post("/api/v1/persistentvolumes", {"metadata": {"name": unique_name}, "spec": volume}).ok(201).json
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    bigger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    response = api.patch(f"{core}/persistentvolumeclaims/c", bigger)
    assert response.status in (403, 422)
    for path in (f"{core}/persistentvolumeclaims/c", f"/api/v1/persistentvolumes/{unique_name}"):
        api.patch(path, {"metadata": {"finalizers": None}}).ok(200)
        api.delete(path).ok(200)


def test_default_storage_and_ingress_classes_are_set(api: Api, core: str, ns: str, unique_name: str) -> None:
    marked = {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    classes = "/apis/networking.k8s.io/v1/ingressclasses"
    api.post(classes, {"metadata": {"name": unique_name, **marked}, "spec": {"controller": "example.com/c"}}).ok(201)
    body = {"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}

    def chosen() -> str:
        spec = api.post(f"/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses", body, {"dryRun": "All"}).json.get("spec", {})
        return str(spec.get("ingressClassName"))

    assert eventually(lambda: chosen() == unique_name)
    api.delete(f"{classes}/{unique_name}").ok(200)


_PLAIN = (
    'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


def test_pod_security_rejects_and_warns(api: Api, core: str, ns: str) -> None:
    label = "pod-security.kubernetes.io/enforce"
    api.post(f"{core}/pods", pod("old")).ok(201)
    warning = f'existing pods in namespace \\"{ns}\\" violate the new PodSecurity enforce level'

    def warned(**query: str) -> bool:
        answer = api.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"labels": {label: "restricted"}}}, query=query).ok(200)
        return any(warning in text for text in answer.warnings)

    # The quota cache of the server must know the pod.
    assert eventually(lambda: warned(dryRun="All"))
    assert warned()
    refused = f'pods "p" is forbidden: violates PodSecurity "restricted:latest": {_PLAIN}'
    assert eventually(lambda: api.post(f"{core}/pods", pod("p"), {"dryRun": "All"}).message == refused)
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod("x")["spec"]}
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}}
    deployed = api.post(f"/apis/apps/v1/namespaces/{ns}/deployments", body, {"dryRun": "All"}).ok(201)
    assert any("would violate PodSecurity" in text for text in deployed.warnings)
    api.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"labels": {label: "foo"}}}).refused(
        422,
        "Invalid",
        f'Namespace "{ns}" is invalid: metadata.labels[{label}]: Invalid value: "foo": '
        "must be one of privileged, baseline, restricted",
    )
