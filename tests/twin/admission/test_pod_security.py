"""PodSecurity: messages of every check as recorded from kube-apiserver, warnings and labels."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.admission import AdmissionCluster, pod

from sliceworks.base.errors import Invalid

_LABEL = "pod-security.kubernetes.io/"
_WORST: dict[str, Any] = {
    "metadata": {"name": "a", "annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}},
    "spec": {
        "hostNetwork": True,
        "hostPID": True,
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "seccompProfile": {"type": "Unconfined"},
            "seLinuxOptions": {"type": "foo", "user": "u", "role": "r"},
            "sysctls": [{"name": "kernel.msgmax", "value": "1"}, {"name": "kernel.shm_rmid_forced", "value": "1"}],
            "appArmorProfile": {"type": "Unconfined"},
            "windowsOptions": {"hostProcess": True},
        },
        "initContainers": [{"name": "i", "image": "x"}],
        "containers": [
            {
                "name": "a",
                "image": "x",
                "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 81}],
                "livenessProbe": {"httpGet": {"host": "h", "port": 80}},
                "securityContext": {
                    "privileged": True,
                    "runAsUser": 0,
                    "runAsNonRoot": False,
                    "capabilities": {"add": ["SYS_ADMIN", "NET_ADMIN"]},
                    "seccompProfile": {"type": "Unconfined"},
                    "seLinuxOptions": {"type": "bar"},
                    "appArmorProfile": {"type": "Unconfined"},
                    "windowsOptions": {"hostProcess": True},
                },
            },
            {"name": "b", "image": "x", "securityContext": {"privileged": True, "capabilities": {"add": ["SYS_TIME"]}}},
        ],
        "volumes": [
            {"name": "v", "hostPath": {"path": "/"}},
            {"name": "w", "hostPath": {"path": "/x"}},
            {"name": "nfs", "nfs": {"server": "s", "path": "/"}},
        ],
    },
}
_APPARMOR = (
    'forbidden AppArmor profiles (pod and container "a" and annotation must not set AppArmor profile type to "Unconfined", '
    '"container.apparmor.security.beta.kubernetes.io/a="unconfined"")'
)
_NAMESPACES = "host namespaces (hostNetwork=true, hostPID=true)"
_PORTS = 'hostPort (container "a" uses hostPorts 80, 81)'
_PROBES = 'probe or lifecycle host (container "a" uses probe or lifecycle host "h")'
_PRIVILEGED = 'privileged (containers "a", "b" must not set securityContext.privileged=true)'
_SELINUX = (
    'seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: types "bar", "foo"; '
    "user may not be set; role may not be set)"
)
_SECCOMP = 'seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")'
_SYSCTLS = "forbidden sysctls (kernel.msgmax)"
_WINDOWS = 'hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)'
_ADDED = 'containers "a", "b" must not include "NET_ADMIN", "SYS_ADMIN", "SYS_TIME" in securityContext.capabilities.add'
_PATHS = 'hostPath volumes (volumes "v", "w")'
_PLAIN = (
    'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)
_ALL = 'containers "i", "a", "b"'


def cluster_with_labels(cluster: AdmissionCluster, **labels: str) -> AdmissionCluster:
    namespace_labels = {_LABEL + key.replace("_", "-"): value for key, value in labels.items()}
    cluster.add("/namespaces", "", "ns", metadata={"labels": namespace_labels}, status={"phase": "Active"})
    return cluster


def worst() -> dict[str, Any]:
    import orjson

    created: dict[str, Any] = orjson.loads(orjson.dumps(_WORST))
    return created


def test_baseline_violations() -> None:
    parts = (
        _APPARMOR,
        f"non-default capabilities ({_ADDED})",
        _NAMESPACES,
        _PATHS,
        _PORTS,
        _PROBES,
        _PRIVILEGED,
        _SELINUX,
        _SECCOMP,
        _SYSCTLS,
        _WINDOWS,
    )
    cluster = cluster_with_labels(AdmissionCluster(), enforce="baseline")
    assert cluster.rejection(worst()) == f'pods "a" is forbidden: violates PodSecurity "baseline:latest": {", ".join(parts)}'
    cluster.create("/pods", pod())
    assert cluster.warnings == []


def test_restricted_violations() -> None:
    parts = (
        _APPARMOR,
        _NAMESPACES,
        _PORTS,
        _PROBES,
        _PRIVILEGED,
        _SELINUX,
        _SYSCTLS,
        _WINDOWS,
        f"allowPrivilegeEscalation != false ({_ALL} must set securityContext.allowPrivilegeEscalation=false)",
        f'unrestricted capabilities ({_ALL} must set securityContext.capabilities.drop=["ALL"]; {_ADDED})',
        'restricted volume types (volumes "v", "w", "nfs" use restricted volume types "hostPath", "nfs")',
        'runAsNonRoot != true (pod and container "a" must not set securityContext.runAsNonRoot=false)',
        'runAsUser=0 (pod and container "a" must not set runAsUser=0)',
        _SECCOMP,
    )
    cluster = cluster_with_labels(AdmissionCluster(), enforce="restricted", enforce_version="v1.30")
    assert cluster.rejection(worst()) == f'pods "a" is forbidden: violates PodSecurity "restricted:v1.30": {", ".join(parts)}'


def test_user_namespaces_relax_some_checks() -> None:
    created = pod("a", hostUsers=False, initContainers=[{"name": "i"}])
    created["spec"]["containers"][0]["securityContext"] = {"procMount": "Unmasked"}
    assert "procMount" not in str(cluster_with_labels(AdmissionCluster(), enforce="baseline").create("/pods", created))
    assert (
        cluster_with_labels(AdmissionCluster(), enforce="restricted")
        .rejection(created)
        .endswith(
            'unrestricted capabilities (containers "i", "a" must set securityContext.capabilities.drop=["ALL"]), '
            'procMount (container "a" must not set securityContext.procMount to "Unmasked"), '
            'seccompProfile (pod or containers "i", "a" must set securityContext.seccompProfile.type '
            'to "RuntimeDefault" or "Localhost")'
        )
    )


def test_restricted_pod_passes() -> None:
    created = pod(securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}})
    created["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    cluster = cluster_with_labels(AdmissionCluster(), enforce="restricted")
    cluster.create("/pods", created)
    assert cluster.warnings == []


def test_templates_get_warnings_of_the_enforced_level() -> None:
    cluster = cluster_with_labels(AdmissionCluster(), enforce="restricted")
    cluster.create("apps/deployments", {"metadata": {"name": "d"}, "spec": {"template": pod("a")}})
    assert cluster.warnings == [f'would violate PodSecurity "restricted:latest": {_PLAIN}']
    job = {"spec": {"template": pod("a")}}
    cluster.create("batch/cronjobs", {"metadata": {"name": "d"}, "spec": {"jobTemplate": job}})
    assert len(cluster.warnings) == 2


def test_warn_level_only_warns() -> None:
    cluster = cluster_with_labels(AdmissionCluster(), enforce="baseline", warn="restricted")
    cluster.create("/pods", pod("a"))
    assert cluster.warnings == [f'would violate PodSecurity "restricted:latest": {_PLAIN}']
    cluster.update("/pods", pod("a"), pod("a"))
    assert len(cluster.warnings) == 1


def test_stricter_level_warns_about_existing_pods() -> None:
    cluster = AdmissionCluster()
    for name in ("p2", "p1"):
        cluster.add("/pods", "ns", name, spec=pod()["spec"])
    old = {"metadata": {"name": "ns", "labels": {}}}
    new = {"metadata": {"name": "ns", "labels": {f"{_LABEL}enforce": "restricted"}}}
    cluster.update("/namespaces", new, old, namespace="")
    assert cluster.warnings == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "restricted:latest"',
        "p1 (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
    ]
    cluster.update("/namespaces", old, new, namespace="")
    assert len(cluster.warnings) == 2


def test_invalid_labels_are_rejected() -> None:
    labels = {f"{_LABEL}enforce": "foo", f"{_LABEL}warn-version": "v2", f"{_LABEL}audit-version": "x"}
    with pytest.raises(Invalid) as caught:
        AdmissionCluster().create("/namespaces", {"metadata": {"name": "g1", "labels": labels}}, namespace="")
    assert caught.value.message == (
        f'Namespace "g1" is invalid: [metadata.labels[{_LABEL}enforce]: Invalid value: "foo": '
        f'must be one of privileged, baseline, restricted, metadata.labels[{_LABEL}audit-version]: Invalid value: "x": '
        f'must be "latest" or "v1.x", metadata.labels[{_LABEL}warn-version]: Invalid value: "v2": must be "latest" or "v1.x"]'
    )
