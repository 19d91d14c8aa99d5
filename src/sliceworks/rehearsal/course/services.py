"""Model services of a rehearsal: deployed as `models deploy` does it, and taken out again with all that the documents brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.kube.resources import key_of
from sliceworks.serving.checks import checked
from sliceworks.serving.deploying import Rollout
from sliceworks.serving.removing import delete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.base.yamls import Document
    from sliceworks.kube.client import Client
    from sliceworks.rehearsal.course.program import Program

_PATIENCE = 3600.0
_DEFAULT = "default"


async def deploy(client: Client, written: Iterable[Document], tell: Callable[[str], None]) -> None:
    """Deploy services one after the other, and wait until each is ready."""
    for document in written:
        service = checked(document)
        rollout = Rollout(client, service, document.data, service.metadata.namespace or _DEFAULT)
        await rollout.prepare()
        record = await rollout.apply(tell, _PATIENCE)
        await rollout.follow(record, tell, _PATIENCE)


async def withdraw(client: Client, program: Program, tell: Callable[[str], None]) -> None:
    """Take out what documents brought, the last first; what is gone already is no trouble."""
    from sliceworks.serving import cluster

    for document in reversed(program.services):
        service = checked(document)
        name, place = service.metadata.name, service.metadata.namespace or _DEFAULT
        tell(f"{name} goes")
        record = next((each for each in await cluster.all_records(client, place) if each.service.metadata.name == name), None)
        if record is not None:
            await delete(client, record, place, _PATIENCE)
    for document in reversed(program.objects):
        try:
            key = key_of(document.data)
            await client.delete(await client.resource_of(document.data), key.name, key.namespace or None)
        except NotFound:
            continue
    await clock.sleep(60)
