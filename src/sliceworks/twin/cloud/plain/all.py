"""All services whose resources are only kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.twin.cloud.plain.accounts import Accounts
from sliceworks.twin.cloud.plain.buckets import Storage
from sliceworks.twin.cloud.plain.builds import Builds, There
from sliceworks.twin.cloud.plain.collections import Registries, boards, fleets
from sliceworks.twin.cloud.plain.images import Images
from sliceworks.twin.cloud.plain.networks import Compute
from sliceworks.twin.cloud.plain.projects import Projects, Services, billing
from sliceworks.twin.cloud.plain.tables import BigQuery
from sliceworks.twin.cloud.plain.topics import PubSub

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.cloud.service import Service
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]


class Plain(NamedTuple):
    """The services, and who knows addresses that name none of them."""

    services: list[Service]
    aliases: list[Callable[[str], str | None]]


def plain_services(store: Store, quotas: Callable[[str, str], list[Obj]]) -> Plain:
    """One of each. `quotas` knows what a project may have in a region."""
    storage, tables, accounts, images = Storage(store), BigQuery(store), Accounts(store), Images(store)
    registries = Registries(store, images)
    builds = Builds(store, images, There(storage.objects.has, accounts.has, registries.has))
    services: list[Service] = [
        Projects(store).service(),
        billing(),
        Services(store).service(),
        accounts.service(),
        Compute(store, quotas).service(),
        *storage.services(),
        registries.service(),
        builds.service(),
        PubSub(store, tables.rows).service(),
        boards(store),
        fleets(store),
        tables.service(),
    ]
    return Plain(services, [storage.alias])
