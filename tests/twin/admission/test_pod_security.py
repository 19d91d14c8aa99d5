"""PodSecurity: each check in Kubernetes' words, as a real server gave them; warnings; labels."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.admission import Around, pod

from sliceworks.base.errors import Forbidden, Invalid

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


def labelled(around: Around, **labels: str) -> Around:
    shown = {_LABEL + key.replace("_", "-"): value for key, value in labels.items()}
    around.add("/namespaces", "", "ns", metadata={"labels": shown}, status={"phase": "Active"})
    return around


def refusal(around: Around, obj: dict[str, Any]) -> str:
    with pytest.raises(Forbidden) as caught:
        around.create("/pods", obj)
    return caught.value.message


def worst() -> dict[str, Any]:
    import orjson

    made: dict[str, Any] = orjson.loads(orjson.dumps(_WORST))
    return made


def test_baseline() -> None:
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
    around = labelled(Around(), enforce="baseline")
    assert refusal(around, worst()) == f'pods "a" is forbidden: violates PodSecurity "baseline:latest": {", ".join(parts)}'
    around.create("/pods", pod())
    assert around.warnings == []


def test_restricted() -> None:
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
    around = labelled(Around(), enforce="restricted", enforce_version="v1.30")
    assert refusal(around, worst()) == f'pods "a" is forbidden: violates PodSecurity "restricted:v1.30": {", ".join(parts)}'


def test_user_namespaces_relax_some_checks() -> None:
    made = pod("a", hostUsers=False, initContainers=[{"name": "i"}])
    made["spec"]["containers"][0]["securityContext"] = {"procMount": "Unmasked"}
    assert "procMount" not in str(labelled(Around(), enforce="baseline").create("/pods", made))
    assert refusal(labelled(Around(), enforce="restricted"), made).endswith(
        'unrestricted capabilities (containers "i", "a" must set securityContext.capabilities.drop=["ALL"]), '
        'procMount (container "a" must not set securityContext.procMount to "Unmasked"), '
        'seccompProfile (pod or containers "i", "a" must set securityContext.seccompProfile.type '
        'to "RuntimeDefault" or "Localhost")'
    )


def test_a_good_pod_passes() -> None:
    made = pod(securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}})
    made["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    around = labelled(Around(), enforce="restricted")
    around.create("/pods", made)
    assert around.warnings == []


def test_templates_are_warned_about_with_what_is_enforced() -> None:
    around = labelled(Around(), enforce="restricted")
    around.create("apps/deployments", {"metadata": {"name": "d"}, "spec": {"template": pod("a")}})
    assert around.warnings == [f'would violate PodSecurity "restricted:latest": {_PLAIN}']
    job = {"spec": {"template": pod("a")}}
    around.create("batch/cronjobs", {"metadata": {"name": "d"}, "spec": {"jobTemplate": job}})
    assert len(around.warnings) == 2


def test_pods_may_only_be_warned_about() -> None:
    around = labelled(Around(), enforce="baseline", warn="restricted")
    around.create("/pods", pod("a"))
    assert around.warnings == [f'would violate PodSecurity "restricted:latest": {_PLAIN}']
    around.update("/pods", pod("a"), pod("a"))
    assert len(around.warnings) == 1


def test_a_stricter_label_names_the_pods_that_would_not_pass() -> None:
    around = Around()
    for name in ("p2", "p1"):
        around.add("/pods", "ns", name, spec=pod()["spec"])
    old = {"metadata": {"name": "ns", "labels": {}}}
    new = {"metadata": {"name": "ns", "labels": {f"{_LABEL}enforce": "restricted"}}}
    around.update("/namespaces", new, old, namespace="")
    assert around.warnings == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "restricted:latest"',
        "p1 (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
    ]
    around.update("/namespaces", old, new, namespace="")
    assert len(around.warnings) == 2


def test_labels_must_make_sense() -> None:
    labels = {f"{_LABEL}enforce": "foo", f"{_LABEL}warn-version": "v2", f"{_LABEL}audit-version": "x"}
    with pytest.raises(Invalid) as caught:
        Around().create("/namespaces", {"metadata": {"name": "g1", "labels": labels}}, namespace="")
    assert caught.value.message == (
        f'Namespace "g1" is invalid: [metadata.labels[{_LABEL}enforce]: Invalid value: "foo": '
        f'must be one of privileged, baseline, restricted, metadata.labels[{_LABEL}audit-version]: Invalid value: "x": '
        f'must be "latest" or "v1.x", metadata.labels[{_LABEL}warn-version]: Invalid value: "v2": must be "latest" or "v1.x"]'
    )
