"""Whether the ConfigMaps, Secrets, service account and claims of a pod exist, with the kubelet's messages if they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import names
from sliceworks.kube import resources
from sliceworks.kube.persistent_volumes import claim_name
from sliceworks.kube.pod_requests import all_containers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Lookup = Callable[["SourceKey"], frozenset[str] | None]
Obj = dict[str, Any]
CONFIG_MAP, SECRET, SERVICE_ACCOUNT, CLAIM = "configmap", "secret", "serviceaccount", "persistentvolumeclaim"
BOUND = "Bound"
RESOURCES = {
    CONFIG_MAP: resources.CONFIG_MAP,
    SECRET: resources.SECRET,
    SERVICE_ACCOUNT: resources.SERVICE_ACCOUNT,
    CLAIM: resources.PERSISTENT_VOLUME_CLAIM,
}
_KEY_HOLDER = {CONFIG_MAP: "ConfigMap", SECRET: "Secret"}
_MISSING_KEY = {CONFIG_MAP: "configmap references non-existent config key: {}", SECRET: "references non-existent secret key: {}"}


class SourceKey(NamedTuple):
    """An object that a pod needs: its kind in lower case, namespace and name."""

    kind: str
    namespace: str
    name: str


def is_bound_claim(obj: Obj) -> bool:
    """Whether an object is a claim that has a volume."""
    return (obj.get("status") or {}).get("phase") == BOUND and "volumeName" in (obj.get("spec") or {})


def source_keys(obj: Obj) -> frozenset[str]:
    """The data keys of a ConfigMap or Secret, and `BOUND` for a claim that has a volume; empty for other kinds."""
    if is_bound_claim(obj):
        return frozenset((BOUND,))
    return frozenset(obj.get("data") or ()) | frozenset(obj.get("binaryData") or ())


class SourceIndex:
    """The objects of a cluster that pods can need, and the waiters for those that are missing."""

    def __init__(self, requeue: Callable[[Any], None]) -> None:
        self._keys: dict[SourceKey, frozenset[str]] = {}
        self._waiting: dict[SourceKey, set[Any]] = {}
        self._requeue = requeue

    def get(self, key: SourceKey) -> frozenset[str] | None:
        """The data keys of an object, or None if it does not exist."""
        return self._keys.get(key)

    def put(self, key: SourceKey, data: frozenset[str]) -> None:
        """Handle a created or changed object."""
        if self._keys.get(key) != data:
            self._keys[key] = data
            for waiter in sorted(self._waiting.pop(key, ())):
                self._requeue(waiter)

    def delete(self, key: SourceKey) -> None:
        """Handle a deleted object."""
        self._keys.pop(key, None)

    def wait(self, waiter: Any, keys: Iterable[SourceKey]) -> None:
        """Requeue `waiter` when one of the objects is created or changed."""
        for key in keys:
            self._waiting.setdefault(key, set()).add(waiter)


def missing_sources(pod: Obj, lookup: Lookup) -> Obj | None:
    """The volumes that cannot be mounted, the containers with invalid images, and those that cannot be configured, with messages.

    None if nothing is missing. As in the kubelet, volumes come first, and volumes that no container mounts do not count.
    """
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    mounted = {mount["name"] for container in _containers(spec) for mount in container.get("volumeMounts") or ()}
    volumes = [
        {"name": volume["name"], "message": message}
        for volume in spec.get("volumes") or ()
        if volume["name"] in mounted and (message := _volume_message(volume, pod, namespace, lookup))
    ]
    if volumes:
        return {"volumes": volumes}
    images = [
        {
            "name": container["name"],
            "message": f"Failed to apply default image tag {quoted}: couldn't parse image name {quoted}: {error}",
        }
        for container in _containers(spec)
        if (error := container.get("image") and names.image_error(container["image"])) and (quoted := f'"{container["image"]}"')
    ]
    containers = [
        {"name": container["name"], "message": message}
        for container in _containers(spec)
        if (message := next(_variable_messages(container, namespace, lookup), ""))
    ]
    return {key: items for key, items in (("images", images), ("containers", containers)) if items} or None


def references(pod: Obj) -> Iterator[SourceKey]:
    """Every object that a pod refers to."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    for volume in spec.get("volumes") or ():
        if claim := claim_name(pod, volume):
            yield SourceKey(CLAIM, namespace, claim)
        for projection in (volume.get("projected") or {}).get("sources") or (volume,):
            for kind, source in _file_sources(projection):
                yield SourceKey(kind, namespace, _name(source))
            if "serviceAccountToken" in projection:
                yield SourceKey(SERVICE_ACCOUNT, namespace, _account(spec))
    for container in _containers(spec):
        for kind, source in _variable_sources(container):
            yield SourceKey(kind, namespace, _name(source))


def _containers(spec: Obj) -> list[Obj]:
    return [*all_containers(spec), *(spec.get("ephemeralContainers") or ())]


def _name(source: Obj) -> str:
    return str(source.get("name") or source.get("secretName") or "")


def _account(spec: Obj) -> str:
    return str(spec.get("serviceAccountName") or "default")


def _file_sources(holder: Obj) -> Iterator[tuple[str, Obj]]:
    if source := holder.get("configMap"):
        yield CONFIG_MAP, source
    if source := holder.get("secret"):
        yield SECRET, source


def _variable_sources(container: Obj) -> Iterator[tuple[str, Obj]]:
    for source in container.get("envFrom") or ():
        for kind, field in ((CONFIG_MAP, "configMapRef"), (SECRET, "secretRef")):
            if reference := source.get(field):
                yield kind, reference
    for variable in container.get("env") or ():
        for kind, field in ((CONFIG_MAP, "configMapKeyRef"), (SECRET, "secretKeyRef")):
            if reference := (variable.get("valueFrom") or {}).get(field):
                yield kind, reference


def _claim_message(name: str, claim: str, namespace: str, lookup: Lookup) -> str:
    keys = lookup(SourceKey(CLAIM, namespace, claim))
    if keys is not None and BOUND in keys:
        return ""
    problem = "PVC is not bound"
    if keys is None:
        problem = f'failed to fetch PVC from API server: persistentvolumeclaims "{claim}" not found'
    return (
        f"Unable to attach or mount volumes: unmounted volumes=[{name}], unattached volumes=[], "
        f"failed to process volumes=[{name}]: error processing PVC {namespace}/{claim}: {problem}"
    )


def _volume_message(volume: Obj, pod: Obj, namespace: str, lookup: Lookup) -> str:
    name, spec = volume["name"], pod["spec"]
    if claim := claim_name(pod, volume):
        return _claim_message(name, claim, namespace, lookup)
    messages: list[str] = []
    for projection in (volume.get("projected") or {}).get("sources") or (volume,):
        if "serviceAccountToken" in projection and lookup(SourceKey(SERVICE_ACCOUNT, namespace, _account(spec))) is None:
            messages.append(f'failed to fetch token: serviceaccounts "{_account(spec)}" not found')
        messages += [_file_message(kind, source, namespace, lookup) for kind, source in _file_sources(projection)]
    distinct = list(dict.fromkeys(filter(None, messages)))
    if not distinct:
        return ""
    problem = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
    return f'MountVolume.SetUp failed for volume "{name}" : {problem}'


def _file_message(kind: str, source: Obj, namespace: str, lookup: Lookup) -> str:
    if source.get("optional"):
        return ""
    data = lookup(SourceKey(kind, namespace, _name(source)))
    if data is None:
        return f'{kind} "{_name(source)}" not found'
    missing = next((item["key"] for item in source.get("items") or () if item["key"] not in data), None)
    return "" if missing is None else _MISSING_KEY[kind].format(missing)


def _variable_messages(container: Obj, namespace: str, lookup: Lookup) -> Iterator[str]:
    for kind, source in _variable_sources(container):
        if source.get("optional"):
            continue
        data = lookup(SourceKey(kind, namespace, _name(source)))
        if data is None:
            yield f'{kind} "{_name(source)}" not found'
        elif "key" in source and source["key"] not in data:
            yield f"couldn't find key {source['key']} in {_KEY_HOLDER[kind]} {namespace}/{_name(source)}"
