"""All services whose resources are only kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.cloud.plain.accounts import Accounts
from sliceworks.twin.cloud.plain.buckets import Storage
from sliceworks.twin.cloud.plain.collections import boards, fleets, registries, topics
from sliceworks.twin.cloud.plain.networks import Compute
from sliceworks.twin.cloud.plain.projects import Projects, Services, billing
from sliceworks.twin.cloud.plain.tables import BigQuery

if TYPE_CHECKING:
    from sliceworks.twin.cloud.service import Service
    from sliceworks.twin.store.store import Store


def plain_services(store: Store) -> list[Service]:
    """One of each."""
    storage = Storage(store)
    return [
        Projects(store).service(),
        billing(),
        Services(store).service(),
        Accounts(store).service(),
        Compute(store).service(),
        storage.service(),
        storage.uploads(),
        storage.downloads(),
        registries(store),
        topics(store),
        boards(store),
        fleets(store),
        BigQuery(store).service(),
    ]
