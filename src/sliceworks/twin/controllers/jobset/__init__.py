"""JobSet v1alpha2 as JobSet v0.12 behaves: its definition, its webhooks and its controller.

`jobset_api`            names, labels, annotations and feature gates
`jobset_defaults`       the defaulting webhook
`jobset_validation`     the validating webhook
`exclusive_placement`   the pod webhooks that give each Job its own topology domain
`child_jobs`            constructs child Jobs, and caches those that exist
`jobset_status`         the status that one reconcile computes, and its events
`jobset_policy`         success, startup, dependsOn and failure policies
`jobset_controller`     creates, counts, restarts and deletes child Jobs
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.apiserver.admission.chain import CREATE, UPDATE
from sliceworks.twin.controllers.jobset import jobset_defaults, jobset_validation
from sliceworks.twin.controllers.jobset.exclusive_placement import LeaderPods
from sliceworks.twin.controllers.jobset.jobset_controller import JobSetReconciler
from sliceworks.twin.controllers.runtime.resource_keys import JOBSETS, PODS

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.admission.chain import Webhooks
    from sliceworks.twin.controllers.runtime.controller import Controller
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext
    from sliceworks.twin.store.store import Store


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of JobSets."""
    crd: dict[str, Any] = orjson.loads((files(__package__) / "data" / "jobsets.json").read_bytes())
    return crd


def install(store: Store, webhooks: Webhooks) -> list[dict[str, Any]]:
    """Register JobSet's webhooks; returns the objects to create."""
    leaders = LeaderPods()
    store.subscribe(leaders.observe, (PODS,))
    webhooks.add_mutating(JOBSETS, CREATE, jobset_defaults.apply_defaults)
    webhooks.add_validating(JOBSETS, CREATE, jobset_validation.validate_create)
    webhooks.add_validating(JOBSETS, UPDATE, jobset_validation.validate_update)
    webhooks.add_mutating(PODS, CREATE, leaders.mutate)
    webhooks.add_validating(PODS, CREATE, leaders.validate)
    return [definition()]


def controllers(context: ControllerContext) -> tuple[Controller[Any], ...]:
    return (JobSetReconciler(context),)
