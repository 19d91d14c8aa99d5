"""JobSet v1alpha2 as JobSet v0.12 behaves: its definition, its webhooks and its controller.

Not here: volume claim policies and restarts in place.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.admission.context import CREATE, UPDATE
from sliceworks.twin.workloads.jobset import defaulting, validation
from sliceworks.twin.workloads.jobset.controller import JobSets
from sliceworks.twin.workloads.jobset.keys import JOBSETS, PODS
from sliceworks.twin.workloads.jobset.placement import Leaders

if TYPE_CHECKING:
    from sliceworks.twin.admission.plugins import Webhooks
    from sliceworks.twin.controllers.loop import Controller
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.store.store import Store


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of JobSets."""
    found: dict[str, Any] = orjson.loads((files(__package__) / "data" / "jobsets.json").read_bytes())
    return found


def install(store: Store, webhooks: Webhooks) -> list[dict[str, Any]]:
    """Put JobSet's webhooks in place; returns the objects it brings along."""
    leaders = Leaders()
    store.subscribe(leaders.observe)
    webhooks.change(JOBSETS, CREATE, defaulting.fill_in)
    webhooks.judge(JOBSETS, CREATE, validation.check_new)
    webhooks.judge(JOBSETS, UPDATE, validation.check_change)
    webhooks.change(PODS, CREATE, leaders.place)
    webhooks.judge(PODS, CREATE, leaders.check)
    return [definition()]


def controllers(world: World) -> tuple[Controller[Any], ...]:
    return (JobSets(world),)
