"""Admission of pods (account, priority, tolerations, runtime class), storage objects and namespaces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.admission import AdmissionCluster, pod

from sliceworks.base.errors import ApiError, Forbidden, NotFound


@pytest.fixture
def cluster() -> AdmissionCluster:
    return AdmissionCluster()


def test_namespace_must_exist(cluster: AdmissionCluster) -> None:
    with pytest.raises(NotFound) as caught:
        cluster.create("/configmaps", {"metadata": {"name": "a"}}, namespace="nons")
    assert caught.value.message == 'namespaces "nons" not found'
    assert caught.value.details == {"name": "nons", "kind": "namespaces"}


def test_terminating_namespace_rejects_new_objects(cluster: AdmissionCluster) -> None:
    cluster.add("/namespaces", "", "ns", status={"phase": "Terminating"})
    with pytest.raises(Forbidden) as caught:
        cluster.create("/configmaps", {"metadata": {"name": "a"}})
    assert (
        caught.value.message
        == 'configmaps "a" is forbidden: unable to create new content in namespace ns because it is being terminated'
    )
    assert caught.value.details == {
        "name": "a",
        "kind": "configmaps",
        "causes": [
            {"reason": "NamespaceTerminating", "message": "namespace ns is being terminated", "field": "metadata.namespace"}
        ],
    }
    cluster.update("/configmaps", {"metadata": {"name": "a"}}, {"metadata": {"name": "a"}})
    cluster.delete("/configmaps", "a")
    cluster.create("authorization.k8s.io/localsubjectaccessreviews", {"metadata": {}})


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces_cannot_be_deleted(cluster: AdmissionCluster, name: str) -> None:
    with pytest.raises(Forbidden) as caught:
        cluster.delete("/namespaces", name, namespace="")
    assert caught.value.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    cluster.delete("/namespaces", "kube-node-lease", namespace="")


def test_pod_gets_account_priority_and_tolerations(cluster: AdmissionCluster) -> None:
    created = pod(initContainers=[{"name": "i"}])
    cluster.create("/pods", created)
    spec = created["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"] == {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
                }
            },
        ],
        "defaultMode": 420,
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    assert [container["volumeMounts"] for container in (*spec["containers"], *spec["initContainers"])] == [[mount], [mount]]
    assert spec["tolerations"] == [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]


def test_token_mount_can_be_disabled(cluster: AdmissionCluster) -> None:
    cluster.add("/serviceaccounts", "ns", "quiet", automountServiceAccountToken=False)
    disabled, enabled = pod(serviceAccountName="quiet"), pod(serviceAccountName="quiet", automountServiceAccountToken=True)
    mounted = pod()
    mounted["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    for created in (disabled, enabled, mounted):
        cluster.create("/pods", created)
    assert ["volumes" in created["spec"] for created in (disabled, enabled, mounted)] == [False, True, False]


def test_pull_secrets_default_to_those_of_the_account(cluster: AdmissionCluster) -> None:
    cluster.add("/serviceaccounts", "ns", "puller", imagePullSecrets=[{"name": "reg"}])
    defaulted, own = pod(serviceAccount="puller"), pod(serviceAccountName="puller", imagePullSecrets=[{"name": "mine"}])
    cluster.create("/pods", defaulted)
    cluster.create("/pods", own)
    assert defaulted["spec"]["imagePullSecrets"] == [{"name": "reg"}]
    assert own["spec"]["imagePullSecrets"] == [{"name": "mine"}]


def test_account_enforces_mountable_secrets(cluster: AdmissionCluster) -> None:
    metadata = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    cluster.add("/serviceaccounts", "ns", "strict", metadata=metadata, secrets=[{"name": "ok"}])
    cluster.create("/pods", pod(serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "ok"}}]))
    assert cluster.rejection(pod(serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "no"}}])) == (
        'pods "p" is forbidden: volume with secret.secretName="no" is not allowed because service account strict '
        "does not reference that secret"
    )


def test_missing_account_is_rejected(cluster: AdmissionCluster) -> None:
    assert cluster.rejection(pod("a", serviceAccountName="nope")) == (
        'pods "a" is forbidden: error looking up service account ns/nope: serviceaccount "nope" not found'
    )


def test_priority_is_set_from_the_class(cluster: AdmissionCluster) -> None:
    cluster.add("scheduling.k8s.io/priorityclasses", "", "high", value=1000, preemptionPolicy="Never")
    created = pod(priorityClassName="high")
    cluster.create("/pods", created)
    assert (created["spec"]["priority"], created["spec"]["preemptionPolicy"]) == (1000, "Never")
    assert (
        cluster.rejection(pod("a", priorityClassName="nope")) == 'pods "a" is forbidden: no PriorityClass with name nope was found'
    )
    computed = "must not be provided in pod spec; priority admission controller computed"
    assert cluster.rejection(pod("a", priority=5)) == (
        f'pods "a" is forbidden: the integer value of priority (5) {computed} 0 from the given PriorityClass name'
    )
    assert cluster.rejection(pod("a", preemptionPolicy="Never")) == (
        f'pods "a" is forbidden: the string value of PreemptionPolicy (Never) {computed} PreemptLowerPriority '
        "from the given PriorityClass name"
    )


def test_global_default_priority_class_is_unique(cluster: AdmissionCluster) -> None:
    cluster.add("scheduling.k8s.io/priorityclasses", "", "one", value=7, globalDefault=True)
    created = pod()
    cluster.create("/pods", created)
    assert (created["spec"]["priorityClassName"], created["spec"]["priority"]) == ("one", 7)
    second = {"metadata": {"name": "two"}, "value": 3, "globalDefault": True}
    assert cluster.rejection(second, "scheduling.k8s.io/priorityclasses") == (
        'priorityclasses.scheduling.k8s.io "two" is forbidden: PriorityClass one is already marked as default. '
        "Only one default can exist"
    )
    first = cluster.objects["scheduling.k8s.io/priorityclasses", "", "one"]
    cluster.update("scheduling.k8s.io/priorityclasses", dict(first), first, namespace="")


def test_update_keeps_the_computed_priority(cluster: AdmissionCluster) -> None:
    old = pod(priority=9, preemptionPolicy="Never")
    new = pod()
    cluster.update("/pods", new, old)
    assert (new["spec"]["priority"], new["spec"]["preemptionPolicy"]) == (9, "Never")


def test_generated_name_is_reported_as_its_prefix(cluster: AdmissionCluster) -> None:
    created = pod("job-abcde", priorityClassName="nope")
    created["metadata"]["generateName"] = "job-"
    assert cluster.rejection(created).startswith('pods "job-" is forbidden')


def test_default_tolerations_respect_those_of_the_pod(cluster: AdmissionCluster) -> None:
    everything = pod(tolerations=[{"operator": "Exists"}])
    ready = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    partly = pod(tolerations=[ready])
    for created in (everything, partly):
        cluster.create("/pods", created)
    assert everything["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert [toleration["tolerationSeconds"] for toleration in partly["spec"]["tolerations"]] == [5, 300]


def test_runtime_class_sets_overhead_and_scheduling(cluster: AdmissionCluster) -> None:
    scheduling = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "gvisor"}]}
    cluster.add("node.k8s.io/runtimeclasses", "", "gvisor", overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    created = pod(runtimeClassName="gvisor")
    cluster.create("/pods", created)
    assert created["spec"]["overhead"] == {"cpu": "250m"}
    assert created["spec"]["nodeSelector"] == {"a": "b"}
    assert {"key": "gvisor"} in created["spec"]["tolerations"]
    assert cluster.rejection(pod(runtimeClassName="no")) == 'pods "p" is forbidden: pod rejected: RuntimeClass "no" not found'
    assert cluster.rejection(pod(overhead={"cpu": "1"})).endswith(
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    )
    assert cluster.rejection(pod(runtimeClassName="gvisor", nodeSelector={"a": "c"})).endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
    )


def test_new_node_is_tainted_as_not_ready(cluster: AdmissionCluster) -> None:
    node: dict[str, Any] = {"metadata": {"name": "n"}}
    cluster.create("/nodes", node, namespace="")
    cluster.admit(cluster.write("/nodes", "CREATE", namespace=""), node, None)
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_claims_get_the_default_class_and_protection_finalizers(cluster: AdmissionCluster) -> None:
    marked = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    cluster.add("storage.k8s.io/storageclasses", "", "old", metadata={**marked, "creationTimestamp": "2026-01-01T00:00:00Z"})
    cluster.add("storage.k8s.io/storageclasses", "", "new", metadata={**marked, "creationTimestamp": "2026-01-02T00:00:00Z"})
    claim: dict[str, Any] = {"metadata": {"name": "c"}}
    chosen: dict[str, Any] = {"metadata": {"name": "c"}, "spec": {"storageClassName": ""}}
    volume: dict[str, Any] = {"metadata": {"name": "v", "finalizers": ["x"]}}
    cluster.create("/persistentvolumeclaims", claim)
    cluster.create("/persistentvolumeclaims", chosen)
    cluster.create("/persistentvolumes", volume, namespace="")
    assert claim == {
        "metadata": {"name": "c", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"storageClassName": "new"},
    }
    assert chosen["spec"]["storageClassName"] == ""
    assert volume["metadata"]["finalizers"] == ["x", "kubernetes.io/pv-protection"]


def test_ingress_gets_the_default_class(cluster: AdmissionCluster) -> None:
    marked = {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    cluster.add("networking.k8s.io/ingressclasses", "", "nginx", metadata=marked)
    ingress: dict[str, Any] = {"metadata": {"name": "i"}}
    cluster.create("networking.k8s.io/ingresses", ingress)
    assert ingress["spec"] == {"ingressClassName": "nginx"}


def test_claim_expansion_needs_a_class_that_allows_it(cluster: AdmissionCluster) -> None:
    def claim(size: str, phase: str) -> dict[str, Any]:
        spec = {"storageClassName": "fast", "resources": {"requests": {"storage": size}}}
        return {"metadata": {"name": "c"}, "spec": spec, "status": {"phase": phase}}

    with pytest.raises(ApiError, match="Only bound persistent volume claims can be expanded"):
        cluster.update("/persistentvolumeclaims", claim("2Gi", "Pending"), claim("1Gi", "Pending"))
    with pytest.raises(ApiError, match="only dynamically provisioned pvc can be resized"):
        cluster.update("/persistentvolumeclaims", claim("2Gi", "Bound"), claim("1Gi", "Bound"))
    cluster.add("storage.k8s.io/storageclasses", "", "fast", allowVolumeExpansion=True)
    cluster.update("/persistentvolumeclaims", claim("2Gi", "Bound"), claim("1Gi", "Bound"))
