"""A test harness for claims, PersistentVolumes and storage classes, with the test as the provisioner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.http import Api

Obj = dict[str, Any]
_VOLUMES, _CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"


class VolumeHarness:
    """The claims in the namespace of one test, and its volumes and classes, whose names begin with the namespace."""

    def __init__(self, api: Api, ns: str) -> None:
        self.api, self.ns = api, ns
        self._claims = f"/api/v1/namespaces/{ns}/persistentvolumeclaims"
        self._created: list[str] = []

    def name(self, name: str) -> str:
        """The full name of a volume or class."""
        return f"{self.ns}-{name}"

    def create_class(self, name: str, *, provisioner: str = "disk.example.com", delayed: bool = False, **fields: Any) -> str:
        """Create a storage class; returns its full name."""
        mode = "WaitForFirstConsumer" if delayed else "Immediate"
        body = {"metadata": {"name": self.name(name)}, "provisioner": provisioner, "volumeBindingMode": mode, **fields}
        self.api.post(_CLASSES, body).ok(201)
        self._created.append(f"{_CLASSES}/{self.name(name)}")
        return self.name(name)

    def create_volume(self, name: str, size: str = "1Gi", *, labels: Obj | None = None, zone: str = "", **spec: Any) -> str:
        """Create a volume that reads and writes once, on NFS unless `spec` says otherwise; returns its full name."""
        source: Obj = {} if {"csi", "hostPath", "local"} & set(spec) else {"nfs": {"server": "192.0.2.1", "path": "/"}}
        if zone:
            term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        body = {
            "metadata": {"name": self.name(name), "labels": {"test": self.ns, **(labels or {})}},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **source, **spec},
        }
        self.api.post(_VOLUMES, body).ok(201)
        self._created.append(f"{_VOLUMES}/{self.name(name)}")
        return self.name(name)

    def create_claim(self, name: str = "data", size: str = "1Gi", **spec: Any) -> Obj:
        """Create a claim without a class unless `spec` has one."""
        resources = {"requests": {"storage": size}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": resources, **spec}
        created: Obj = self.api.post(self._claims, {"metadata": {"name": name}, "spec": spec}).ok(201).json
        return created

    def claim(self, name: str = "data") -> Obj:
        result: Obj = self.api.get(f"{self._claims}/{name}").ok(200).json
        return result

    def volume(self, name: str) -> Obj:
        result: Obj = self.api.get(f"{_VOLUMES}/{self.name(name)}").ok(200).json
        return result

    def change_claim(self, change: Obj, name: str = "data") -> None:
        self.api.patch(f"{self._claims}/{name}", change).ok()

    def delete_claim(self, name: str = "data") -> None:
        self.api.delete(f"{self._claims}/{name}").ok()

    def delete_volume(self, name: str) -> None:
        self.api.delete(f"{_VOLUMES}/{self.name(name)}").ok()

    def has_volume(self, name: str) -> bool:
        return self.api.get(f"{_VOLUMES}/{self.name(name)}").status == 200

    def until_claim(self, matches: Callable[[Obj], Any], what: str, name: str = "data") -> Obj:
        """Wait until a claim matches."""
        return eventually(lambda: obj if matches(obj := self.claim(name)) else None, what=what)

    def until_bound(self, name: str = "data") -> Obj:
        """Wait until a claim and its volume are bound; returns the claim."""
        claim = self.until_claim(lambda obj: obj["status"].get("phase") == "Bound", f"{name} is bound", name)
        path = f"{_VOLUMES}/{claim['spec']['volumeName']}"
        eventually(lambda: self.api.get(path).ok().json["status"]["phase"] == "Bound", what="its volume is bound")
        return claim

    def until_phase(self, name: str, phase: str) -> Obj:
        """Wait until a volume is in a phase; returns the volume."""
        return eventually(
            lambda: obj if (obj := self.volume(name))["status"].get("phase") == phase else None, what=f"{name}: {phase}"
        )

    def event(self, reason: str, name: str = "data", kind: str = "PersistentVolumeClaim") -> tuple[str, str, str]:
        """Wait for an event about a claim or volume; returns its type, message and component."""
        is_claim = kind == "PersistentVolumeClaim"
        path = f"/api/v1/namespaces/{self.ns if is_claim else 'default'}/events"
        selector = f"involvedObject.kind={kind},involvedObject.name={name if is_claim else self.name(name)},reason={reason}"
        found = eventually(lambda: self.api.get(path, {"fieldSelector": selector}).ok().json["items"], what=f"{reason} of {name}")[
            0
        ]
        return found["type"], found["message"].replace(self.ns, "NS"), found["source"]["component"]

    def clear(self) -> None:
        """Delete the claims, and the volumes and classes of this test."""
        for claim in self.api.get(self._claims).ok().names:
            self.api.patch(f"{self._claims}/{claim}", {"metadata": {"finalizers": None}})
            self.api.delete(f"{self._claims}/{claim}")
        for path in self._created:
            if path.startswith(_VOLUMES):
                self.api.patch(path, {"metadata": {"finalizers": None}})
            self.api.delete(path)
