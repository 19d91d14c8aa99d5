"""Namespaces that are in Kueue's cache before a test uses them: Kueue ignores a job in a namespace that it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.kueue import GROUP, QUEUE
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.http import Api

_AT_ONCE = 8


class NamespacePool:
    """Namespaces of one cluster, created in batches: waiting for several takes as long as waiting for one."""

    def __init__(self, api: Api, make: Callable[[], str]) -> None:
        self._api, self._make = api, make
        self._left: list[str] = []

    def take(self) -> str:
        """Return an unused namespace."""
        if not self._left:
            *self._left, last = (self._make() for _ in range(_AT_ONCE))
            until_known(self._api, last)
        return self._left.pop(0)


def until_known(api: Api, namespace: str) -> None:
    """Wait until Kueue knows a namespace, and so all earlier ones: a job that is updated there gets its Workload."""
    jobs, workloads = f"/apis/batch/v1/namespaces/{namespace}/jobs", f"{GROUP}/namespaces/{namespace}/workloads"
    pod = {"restartPolicy": "Never", "schedulerName": "no-scheduler", "containers": [{"name": "c", "image": "x"}]}
    body = {"metadata": {"name": "probe", "labels": {QUEUE: "nowhere"}}, "spec": {"template": {"spec": pod}}}
    api.post(jobs, body).ok(201)
    touches = iter(range(10_000))

    def known() -> bool:
        api.patch(f"{jobs}/probe", {"metadata": {"annotations": {"touched": str(next(touches))}}}).ok()
        return bool(api.get(workloads).ok().json["items"])

    eventually(known, what=f"Kueue knows {namespace}")
    api.delete(f"{jobs}/probe", {"propagationPolicy": "Background"}).ok()
    # The garbage collector refreshes its list of kinds only every 30 s, and Kueue's kinds may be new.
    for name in api.get(workloads).ok().names:
        assert api.delete(f"{workloads}/{name}").status in (200, 404)
    eventually(lambda: not api.get(workloads).ok().names, what="nothing left of it")
