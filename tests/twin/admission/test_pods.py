"""What happens to a pod on its way in: account, priority, tolerations, runtime class; and the life of namespaces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.admission import Around, pod

from sliceworks.base.errors import ApiError, Forbidden, NotFound
from sliceworks.twin.admission.plugins import admit


@pytest.fixture
def around() -> Around:
    return Around()


def test_a_namespace_must_be_there(around: Around) -> None:
    with pytest.raises(NotFound) as caught:
        around.create("/configmaps", {"metadata": {"name": "a"}}, namespace="nons")
    assert caught.value.message == 'namespaces "nons" not found'
    assert caught.value.details == {"name": "nons", "kind": "namespaces"}


def test_a_namespace_that_ends_takes_nothing_new(around: Around) -> None:
    around.add("/namespaces", "", "ns", status={"phase": "Terminating"})
    with pytest.raises(Forbidden) as caught:
        around.create("/configmaps", {"metadata": {"name": "a"}})
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
    around.update("/configmaps", {"metadata": {"name": "a"}}, {"metadata": {"name": "a"}})
    around.delete("/configmaps", "a")
    around.create("authorization.k8s.io/localsubjectaccessreviews", {"metadata": {}})


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_never_end(around: Around, name: str) -> None:
    with pytest.raises(Forbidden) as caught:
        around.delete("/namespaces", name, namespace="")
    assert caught.value.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    around.delete("/namespaces", "kube-node-lease", namespace="")


def test_a_plain_pod_gets_what_kubernetes_gives_it(around: Around) -> None:
    made = pod(initContainers=[{"name": "i"}])
    around.create("/pods", made)
    spec = made["spec"]
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


def test_the_token_is_not_mounted_where_somebody_declined(around: Around) -> None:
    around.add("/serviceaccounts", "ns", "quiet", automountServiceAccountToken=False)
    declined, wanted = pod(serviceAccountName="quiet"), pod(serviceAccountName="quiet", automountServiceAccountToken=True)
    placed = pod()
    placed["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    for made in (declined, wanted, placed):
        around.create("/pods", made)
    assert ["volumes" in made["spec"] for made in (declined, wanted, placed)] == [False, True, False]


def test_pull_secrets_come_from_the_account_unless_the_pod_has_its_own(around: Around) -> None:
    around.add("/serviceaccounts", "ns", "puller", imagePullSecrets=[{"name": "reg"}])
    given, own = pod(serviceAccount="puller"), pod(serviceAccountName="puller", imagePullSecrets=[{"name": "mine"}])
    around.create("/pods", given)
    around.create("/pods", own)
    assert given["spec"]["imagePullSecrets"] == [{"name": "reg"}]
    assert own["spec"]["imagePullSecrets"] == [{"name": "mine"}]


def test_an_account_may_limit_the_secrets_of_its_pods(around: Around) -> None:
    metadata = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    around.add("/serviceaccounts", "ns", "strict", metadata=metadata, secrets=[{"name": "ok"}])
    around.create("/pods", pod(serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "ok"}}]))
    assert around.refusal(pod(serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "no"}}])) == (
        'pods "p" is forbidden: volume with secret.secretName="no" is not allowed because service account strict '
        "does not reference that secret"
    )


def test_an_absent_account_is_refused(around: Around) -> None:
    assert around.refusal(pod("a", serviceAccountName="nope")) == (
        'pods "a" is forbidden: error looking up service account ns/nope: serviceaccount "nope" not found'
    )


def test_priority_comes_from_the_class(around: Around) -> None:
    around.add("scheduling.k8s.io/priorityclasses", "", "high", value=1000, preemptionPolicy="Never")
    made = pod(priorityClassName="high")
    around.create("/pods", made)
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1000, "Never")
    assert around.refusal(pod("a", priorityClassName="nope")) == 'pods "a" is forbidden: no PriorityClass with name nope was found'
    computed = "must not be provided in pod spec; priority admission controller computed"
    assert around.refusal(pod("a", priority=5)) == (
        f'pods "a" is forbidden: the integer value of priority (5) {computed} 0 from the given PriorityClass name'
    )
    assert around.refusal(pod("a", preemptionPolicy="Never")) == (
        f'pods "a" is forbidden: the string value of PreemptionPolicy (Never) {computed} PreemptLowerPriority '
        "from the given PriorityClass name"
    )


def test_the_lowest_default_class_counts_and_there_is_only_one(around: Around) -> None:
    around.add("scheduling.k8s.io/priorityclasses", "", "one", value=7, globalDefault=True)
    made = pod()
    around.create("/pods", made)
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("one", 7)
    second = {"metadata": {"name": "two"}, "value": 3, "globalDefault": True}
    assert around.refusal(second, "scheduling.k8s.io/priorityclasses") == (
        'priorityclasses.scheduling.k8s.io "two" is forbidden: PriorityClass one is already marked as default. '
        "Only one default can exist"
    )
    first = around.kept["scheduling.k8s.io/priorityclasses", "", "one"]
    around.update("scheduling.k8s.io/priorityclasses", dict(first), first, namespace="")


def test_an_update_keeps_the_computed_priority(around: Around) -> None:
    old = pod(priority=9, preemptionPolicy="Never")
    new = pod()
    around.update("/pods", new, old)
    assert (new["spec"]["priority"], new["spec"]["preemptionPolicy"]) == (9, "Never")


def test_a_name_that_is_only_generated_later_is_shown_as_its_prefix(around: Around) -> None:
    made = pod("job-abcde", priorityClassName="nope")
    made["metadata"]["generateName"] = "job-"
    assert around.refusal(made).startswith('pods "job-" is forbidden')


def test_tolerations_of_the_pod_stand(around: Around) -> None:
    everything = pod(tolerations=[{"operator": "Exists"}])
    ready = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    partly = pod(tolerations=[ready])
    for made in (everything, partly):
        around.create("/pods", made)
    assert everything["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert [each["tolerationSeconds"] for each in partly["spec"]["tolerations"]] == [5, 300]


def test_runtime_class(around: Around) -> None:
    scheduling = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "gvisor"}]}
    around.add("node.k8s.io/runtimeclasses", "", "gvisor", overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    made = pod(runtimeClassName="gvisor")
    around.create("/pods", made)
    assert made["spec"]["overhead"] == {"cpu": "250m"}
    assert made["spec"]["nodeSelector"] == {"a": "b"}
    assert {"key": "gvisor"} in made["spec"]["tolerations"]
    assert around.refusal(pod(runtimeClassName="no")) == 'pods "p" is forbidden: pod rejected: RuntimeClass "no" not found'
    assert around.refusal(pod(overhead={"cpu": "1"})).endswith(
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    )
    assert around.refusal(pod(runtimeClassName="gvisor", nodeSelector={"a": "c"})).endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
    )


def test_a_new_node_is_not_ready(around: Around) -> None:
    node: dict[str, Any] = {"metadata": {"name": "n"}}
    around.create("/nodes", node, namespace="")
    admit(around.write("/nodes", "CREATE", namespace=""), node, None)
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_storage_is_protected_and_gets_its_class(around: Around) -> None:
    marked = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    around.add("storage.k8s.io/storageclasses", "", "old", metadata={**marked, "creationTimestamp": "2026-01-01T00:00:00Z"})
    around.add("storage.k8s.io/storageclasses", "", "new", metadata={**marked, "creationTimestamp": "2026-01-02T00:00:00Z"})
    claim: dict[str, Any] = {"metadata": {"name": "c"}}
    chosen: dict[str, Any] = {"metadata": {"name": "c"}, "spec": {"storageClassName": ""}}
    volume: dict[str, Any] = {"metadata": {"name": "v", "finalizers": ["x"]}}
    around.create("/persistentvolumeclaims", claim)
    around.create("/persistentvolumeclaims", chosen)
    around.create("/persistentvolumes", volume, namespace="")
    assert claim == {
        "metadata": {"name": "c", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"storageClassName": "new"},
    }
    assert chosen["spec"]["storageClassName"] == ""
    assert volume["metadata"]["finalizers"] == ["x", "kubernetes.io/pv-protection"]


def test_ingress_class(around: Around) -> None:
    marked = {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    around.add("networking.k8s.io/ingressclasses", "", "nginx", metadata=marked)
    ingress: dict[str, Any] = {"metadata": {"name": "i"}}
    around.create("networking.k8s.io/ingresses", ingress)
    assert ingress["spec"] == {"ingressClassName": "nginx"}


def test_a_claim_grows_only_where_its_class_allows(around: Around) -> None:
    def claim(size: str, phase: str) -> dict[str, Any]:
        spec = {"storageClassName": "fast", "resources": {"requests": {"storage": size}}}
        return {"metadata": {"name": "c"}, "spec": spec, "status": {"phase": phase}}

    with pytest.raises(ApiError, match="Only bound persistent volume claims can be expanded"):
        around.update("/persistentvolumeclaims", claim("2Gi", "Pending"), claim("1Gi", "Pending"))
    with pytest.raises(ApiError, match="only dynamically provisioned pvc can be resized"):
        around.update("/persistentvolumeclaims", claim("2Gi", "Bound"), claim("1Gi", "Bound"))
    around.add("storage.k8s.io/storageclasses", "", "fast", allowVolumeExpansion=True)
    around.update("/persistentvolumeclaims", claim("2Gi", "Bound"), claim("1Gi", "Bound"))
