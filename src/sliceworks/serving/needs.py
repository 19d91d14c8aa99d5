"""What the pods of a service need and nobody makes: service accounts, and Secrets with their keys. Pure but for `missing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import Forbidden
from sliceworks.kube.well_known import SECRET, SERVICE_ACCOUNT
from sliceworks.serving.record import reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.kube import Client

Object = dict[str, Any]


class Need(NamedTuple):
    """An object of the service's namespace, and the keys that a Secret must have."""

    kind: str
    name: str
    keys: tuple[str, ...] = ()


def needs(objects: Iterable[Object]) -> list[Need]:
    """What pods name and the objects themselves are not, each once."""
    made = list(objects)
    own = {(each.kind, each.name) for each in map(reference, made)}
    keys: dict[tuple[str, str], set[str]] = {}
    for each in made:
        for kind, name, key in _named(((each.get("spec") or {}).get("template") or {}).get("spec") or {}):
            if (kind, name) not in own:
                keys.setdefault((kind, name), set()).update({key} if key else ())
    return [Need(kind, name, tuple(sorted(found))) for (kind, name), found in keys.items()]


def _named(pod: Object) -> Iterator[tuple[str, str, str]]:
    if account := pod.get("serviceAccountName"):
        yield "ServiceAccount", account, ""
    for volume in pod.get("volumes") or ():
        secret = volume.get("secret")
        if secret and not secret.get("optional"):
            yield "Secret", secret["secretName"], ""
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        for variable in container.get("env") or ():
            wanted = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if wanted and not wanted.get("optional"):
                yield "Secret", wanted["name"], wanted["key"]


async def missing(client: Client, namespace: str, wanted: Iterable[Need]) -> list[str]:
    """Those that are not there, and what makes them; what one may not look at is not told of."""
    told = []
    for each in wanted:
        resource = SECRET if each.kind == "Secret" else SERVICE_ACCOUNT
        try:
            found = await client.find(resource, each.name, namespace)
        except Forbidden:
            continue
        has = (found or {}).get("data") or {}
        lacking = [key for key in each.keys if key not in has]
        if found is None:
            told.append(f"{each.kind.lower()}/{each.name} in {namespace}{_making(each, namespace)}")
        elif lacking:
            told.append(f"{', '.join(lacking)} of secret/{each.name} in {namespace}")
    return told


def _making(need: Need, namespace: str) -> str:
    """The command that makes it, where it is known what belongs into it."""
    if need.kind == "Secret" and not need.keys:
        return ""
    rest = "".join(f" --from-literal={key}=…" for key in need.keys)
    what = "secret generic" if need.kind == "Secret" else "serviceaccount"
    return f"; `kubectl create {what} {need.name} -n {namespace}{rest}` makes it"
