"""Values from ConfigMaps, Secrets and the downward API."""

from __future__ import annotations

import base64
import contextlib
import math
import re
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.errors import NotFound
from sliceworks.kube.pod_requests import all_containers
from sliceworks.kube.resources import JOB, NODE, PERSISTENT_VOLUME
from sliceworks.twin.nodes import pod_sources
from sliceworks.twin.nodes.pod_sources import BOUND, SourceKey, is_bound_claim, missing_sources, references

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]\Z")


class Sources:
    """The ConfigMaps and Secrets that a pod references, and its Job."""

    def __init__(self, pod: Obj, job: Obj | None, data: dict[SourceKey, dict[str, bytes]]) -> None:
        self.pod = pod
        self.job = job
        self.tokens: Mapping[str, str] = {}
        """The tokens of the pod's service account by audience; that for the API server has none."""
        self.volumes: Mapping[str, Obj] = {}
        """The PersistentVolumes of the pod's claims, by claim."""
        self.allocatable: Obj = {}
        """The resources of the node, which are the limits of containers without limits."""
        self._data = data

    def missing(self) -> Obj:
        """What the pod needs and does not exist, as `missing_sources` returns it."""
        return missing_sources(self.pod, lambda key: frozenset(self._data[key]) if key in self._data else None) or {}

    def keys(self, kind: str, source: Obj) -> dict[str, bytes]:
        """All keys of a ConfigMap or Secret; none if it does not exist."""
        name = source.get("name") or source.get("secretName") or ""
        return self._data.get(SourceKey(kind, self.pod["metadata"]["namespace"], name)) or {}

    def key(self, kind: str, source: Obj) -> bytes | None:
        """The value of one key, or None."""
        return self.keys(kind, source).get(source["key"])


async def read_sources(client: Client, pod: Obj) -> Sources:
    """Read the ConfigMaps, Secrets, volumes, account and Job of a pod."""
    namespace = pod["metadata"]["namespace"]
    data: dict[SourceKey, dict[str, bytes]] = {}
    volumes: dict[str, Obj] = {}
    for key in dict.fromkeys(references(pod)):
        try:
            obj = await client.get(pod_sources.RESOURCES[key.kind], key.name, namespace)
        except NotFound:
            continue
        data[key] = _decode(key.kind, obj)
        if is_bound_claim(obj):
            with contextlib.suppress(NotFound):
                volumes[key.name] = await client.get(PERSISTENT_VOLUME, obj["spec"]["volumeName"])
    sources = Sources(pod, await _read_job(client, pod), data)
    sources.volumes = volumes
    if _uses_resource_fields(pod["spec"]):
        with contextlib.suppress(NotFound):
            sources.allocatable = (await client.get(NODE, pod["spec"]["nodeName"]))["status"].get("allocatable") or {}
    return sources


async def _read_job(client: Client, pod: Obj) -> Obj | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    job = next((owner["name"] for owner in owners if owner["kind"] == "Job" and owner.get("controller")), None)
    try:
        return await client.get(JOB, job, pod["metadata"]["namespace"]) if job else None
    except NotFound:
        return None


def _uses_resource_fields(spec: Obj) -> bool:
    """Whether a variable or a file has the limit of a container."""
    values = [entry.get("valueFrom") or {} for container in all_containers(spec) for entry in container.get("env") or ()]
    for volume in spec.get("volumes") or ():
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            values += (source.get("downwardAPI") or {}).get("items") or ()
    return any("resourceFieldRef" in value for value in values)


def _decode(kind: str, obj: Obj) -> dict[str, bytes]:
    if kind not in (pod_sources.CONFIG_MAP, pod_sources.SECRET):
        return {BOUND: b""} if is_bound_claim(obj) else {}
    if kind == pod_sources.SECRET:
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    return plain | {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}


def read_field(pod: Obj, path: str, addresses: tuple[str, str]) -> str:
    """A field of the downward API; `addresses` are those of the node and the pod."""
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _SUBSCRIPT.match(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": addresses[0],
        "status.hostIPs": addresses[0],
        "status.podIP": addresses[1],
        "status.podIPs": addresses[1],
    }
    if path in {"metadata.labels", "metadata.annotations"}:
        entries = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(entries.items()))
    return str(fields.get(path, ""))


def read_resource_field(pod: Obj, container: Obj, reference: Obj, allocatable: Obj) -> str:
    """A limit or request of a container in units of the divisor, rounded up; without a limit, that of the node."""
    name = reference.get("containerName")
    owner = next((item for item in pod["spec"]["containers"] if item["name"] == name), container)
    part, _, resource = reference["resource"].partition(".")
    resources = owner.get("resources") or {}
    value = (resources.get(part) or {}).get(resource) or (resources.get("limits") or {}).get(resource)
    value = value or (allocatable.get(resource) if part == "limits" else None) or "0"
    divisor = quantity.parse(reference.get("divisor") or "1") or 1
    return str(math.ceil(quantity.parse(value) / divisor))
