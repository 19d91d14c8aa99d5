"""What a pod takes from elsewhere: config maps, secrets, its own fields, its resources."""

from __future__ import annotations

import base64
import math
import re
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.kube.well_known import CONFIG_MAP, JOB, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]\Z")


class Missing(SliceworksError):
    """Something that a container needs is not there; it may come."""


class NotMounted(Missing):
    """A volume cannot be filled yet: no container is made."""


class Sources:
    """The config maps and secrets that a pod names, and the Job that it belongs to, read once for each start of a container."""

    def __init__(self, pod: Obj, job: Obj | None, found: dict[tuple[str, str], dict[str, bytes]]) -> None:
        self.pod = pod
        self.job = job
        self.token = ""
        """Of the pod's service account, where it has one."""
        self._found = found

    def keys(self, kind: str, source: Obj) -> dict[str, bytes]:
        """All of a config map or secret; Missing where it must be there and is not."""
        name = source.get("name") or source.get("secretName") or ""
        data = self._found.get((kind, name))
        if data is None:
            if source.get("optional"):
                return {}
            raise Missing(f'{kind} "{name}" not found')
        return data

    def key(self, kind: str, source: Obj) -> bytes | None:
        """One entry; None where it is optional and not there."""
        data = self.keys(kind, source)
        if source["key"] not in data:
            if source.get("optional"):
                return None
            where = f"{kind.replace('configmap', 'ConfigMap').replace('secret', 'Secret')}"
            raise Missing(f"couldn't find key {source['key']} in {where} {self.pod['metadata']['namespace']}/{source['name']}")
        return data[source["key"]]


async def read_sources(client: Client, pod: Obj) -> Sources:
    """Read what a pod names."""
    namespace = pod["metadata"]["namespace"]
    found: dict[tuple[str, str], dict[str, bytes]] = {}
    for kind, name in set(_named(pod)):
        try:
            obj = await client.get(CONFIG_MAP if kind == "configmap" else SECRET, name, namespace)
        except NotFound:
            continue
        found[kind, name] = _data(kind, obj)
    owners = pod["metadata"].get("ownerReferences") or ()
    job = next((owner["name"] for owner in owners if owner["kind"] == "Job" and owner.get("controller")), None)
    try:
        return Sources(pod, await client.get(JOB, job, namespace) if job else None, found)
    except NotFound:
        return Sources(pod, None, found)


def _data(kind: str, obj: Obj) -> dict[str, bytes]:
    if kind == "secret":
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    return plain | {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}


def _named(pod: Obj) -> Iterator[tuple[str, str]]:
    spec = pod["spec"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for each in container.get("envFrom") or ():
            yield from _references(each, "configMapRef", "secretRef")
        for variable in container.get("env") or ():
            yield from _references(variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _references(volume, "configMap", "secret")
        for each in (volume.get("projected") or {}).get("sources") or ():
            yield from _references(each, "configMap", "secret")


def _references(where: Obj, config_map: str, secret: str) -> Iterator[tuple[str, str]]:
    if source := where.get(config_map):
        yield "configmap", source.get("name", "")
    if source := where.get(secret):
        yield "secret", source.get("name") or source.get("secretName") or ""


def field_of(pod: Obj, path: str, addresses: tuple[str, str]) -> str:
    """A field of the pod as the downward API gives it. `addresses` are the host's and the pod's."""
    metadata, spec = pod["metadata"], pod["spec"]
    if keyed := _KEYED.match(path):
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    known = {
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
    return str(known.get(path, ""))


def amount_of(pod: Obj, container: Obj, reference: Obj) -> str:
    """A container's limit or request in units of the divisor, rounded up."""
    name = reference.get("containerName")
    of = next((item for item in pod["spec"]["containers"] if item["name"] == name), container)
    part, _, resource = reference["resource"].partition(".")
    resources = of.get("resources") or {}
    given = (resources.get(part) or {}).get(resource) or (resources.get("limits") or {}).get(resource) or "0"
    divisor = quantity.parse(reference.get("divisor") or "1") or 1
    return str(math.ceil(quantity.parse(given) / divisor))
