"""Namespaces that Kueue has heard of before a case uses them: a job in one that it does not know is left alone for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.kueue import GROUP, QUEUE
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.http import Api

_AT_ONCE = 8


class Known:
    """Namespaces of one cluster. Some at a time are made and waited for, which takes as long as it does for one."""

    def __init__(self, api: Api, make: Callable[[], str]) -> None:
        self._api, self._make = api, make
        self._left: list[str] = []

    def take(self) -> str:
        """One that nobody has used."""
        if not self._left:
            *self._left, last = (self._make() for _ in range(_AT_ONCE))
            until_known(self._api, last)
        return self._left.pop(0)


def until_known(api: Api, namespace: str) -> None:
    """Wait until Kueue knows a namespace, and with it all that were made before: a job there that is touched gets its Workload."""
    jobs, workloads = f"/apis/batch/v1/namespaces/{namespace}/jobs", f"{GROUP}/namespaces/{namespace}/workloads"
    pod = {"restartPolicy": "Never", "schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]}
    body = {"metadata": {"name": "probe", "labels": {QUEUE: "nowhere"}}, "spec": {"template": {"spec": pod}}}
    api.post(jobs, body).ok(201)
    touches = iter(range(10_000))

    def known() -> bool:
        api.patch(f"{jobs}/probe", {"metadata": {"annotations": {"touched": str(next(touches))}}}).ok()
        return bool(api.get(workloads).ok().json["items"])

    eventually(known, what=f"a Kueue that knows {namespace}")
    api.delete(f"{jobs}/probe", {"propagationPolicy": "Background"}).ok()
    # The garbage collector hears only twice a minute of kinds that are new, as Kueue's may be.
    for name in api.get(workloads).ok().names:
        assert api.delete(f"{workloads}/{name}").status in (200, 404)
    eventually(lambda: not api.get(workloads).ok().names, what="nothing left of it")
