"""The status of a workload from its counters: before, during and after a change."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.model_services import service

from sliceworks.serving import record as records
from sliceworks.serving.service_status import compute_status

Object = dict[str, Any]
SERVICE = service("triton", "triton: {repository: /models, models: [{name: parrot}]}")
LABELS = {"app.kubernetes.io/component": "server"}


def deployment(wanted: int, generation: int, **status: int) -> Object:
    metadata = {"name": "served", "namespace": "models", "generation": generation, "labels": LABELS}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": wanted}, "status": status}


@pytest.mark.parametrize(
    ("obj", "ready", "state"),
    [
        (deployment(1, 1), 0, "starting"),
        (deployment(1, 1, observedGeneration=1, replicas=1, updatedReplicas=1), 0, "starting"),
        (deployment(1, 1, observedGeneration=1, replicas=1, updatedReplicas=1, readyReplicas=1), 1, "ready"),
        # the controller has not observed the change
        (deployment(1, 2, observedGeneration=1, replicas=1, updatedReplicas=1, readyReplicas=1), 1, "updating"),
        # surge first: the old pod answers, the new one does not
        (deployment(1, 2, observedGeneration=2, replicas=2, updatedReplicas=1, readyReplicas=1), 1, "updating"),
        (deployment(1, 2, observedGeneration=2, replicas=2, updatedReplicas=1, readyReplicas=2), 1, "ready"),
        # the old pod is deleted first
        (deployment(2, 2, observedGeneration=2, replicas=2, updatedReplicas=1, readyReplicas=1), 1, "degraded"),
        (deployment(2, 2, observedGeneration=2, replicas=2, updatedReplicas=1, readyReplicas=2), 2, "updating"),
        (deployment(0, 2, observedGeneration=2), 0, "stopped"),
    ],
)
def test_old_pods_do_not_count_for_a_change(obj: Object, ready: int, state: str) -> None:
    record = records.Record(SERVICE, {}, frozenset({records.reference(obj)}), "u", "2026-01-05T08:00:00Z", "models")
    stands = compute_status(record, [obj])
    assert (stands.servers[0].ready, stands.state) == (ready, state)


@pytest.mark.parametrize(("ready", "state"), [(1, "unfinished"), (0, "starting")])
def test_service_with_pending_steps_is_not_ready(ready: int, state: str) -> None:
    result = deployment(1, 1, observedGeneration=1, replicas=1, updatedReplicas=1, readyReplicas=ready)
    names = frozenset({records.reference(result)})
    record = records.Record(SERVICE, {}, names, "u", "2026-01-05T08:00:00Z", "models", ("apply httproute/served",))
    stands = compute_status(record, [result])
    assert (stands.state, stands.is_settled) == (state, ready == 1)
