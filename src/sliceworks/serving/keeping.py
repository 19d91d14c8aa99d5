"""Records written so that nobody undoes what somebody else has written meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import AlreadyExists, Conflict, NotFound, SliceworksError
from sliceworks.kube.well_known import CONFIG_MAP
from sliceworks.serving import record as records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record, Reference

Object = dict[str, Any]


class ChangedMeanwhile(SliceworksError):
    """Somebody else deploys, changes or deletes the same service."""

    def __init__(self, name: str, what: str = "changed") -> None:
        super().__init__(f"somebody else has {what} {name} meanwhile", hint="run the command again")


async def keep(client: Client, name: str, body: Object, live: Object | None, namespace: str) -> Object:
    """Write a record in the place of the one that was read; none, where there was none."""
    manager = f"sliceworks-{name}"
    try:
        if live is None:
            return await client.create(body, namespace, resource=CONFIG_MAP, field_manager=manager)
        old = live["metadata"]
        metadata = {**old, "labels": {**(old.get("labels") or {}), **body["metadata"]["labels"]}}
        return await client.replace({**body, "metadata": metadata}, namespace, resource=CONFIG_MAP, field_manager=manager)
    except (AlreadyExists, Conflict) as error:
        raise ChangedMeanwhile(name) from error
    except NotFound as error:
        raise ChangedMeanwhile(name, "deleted") from error


async def check(client: Client, name: str, live: Object, namespace: str) -> None:
    """Whether a record is as it was written."""
    found = await client.find(CONFIG_MAP, records.record_name(name), namespace)
    if found is None or "deletionTimestamp" in found["metadata"]:
        raise ChangedMeanwhile(name, "deleted")
    if (found["metadata"]["uid"], found.get("data")) != (live["metadata"]["uid"], live.get("data")):
        raise ChangedMeanwhile(name)


async def hand_on(client: Client, record: Record, made: Iterable[Reference], namespace: str) -> None:
    """Have the record of whoever came between name also what was made before that was known: the next deployment removes it.
    Where there is another record by now, the garbage collector does."""
    name = record.service.metadata.name
    while live := await client.find(CONFIG_MAP, records.record_name(name), namespace):
        named = records.with_objects(live, made)
        if named == live or live["metadata"]["uid"] != record.uid:
            return
        try:
            await client.replace(named, namespace, resource=CONFIG_MAP, field_manager=f"sliceworks-{name}")
        except Conflict:
            continue
        except NotFound:
            return
