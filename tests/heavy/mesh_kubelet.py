"""A kubelet of one node: binds pods, assigns addresses, starts their programs, and reports readiness."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.http import Api

Object = dict[str, Any]
NODE = "machine"
_EVERY = 0.1  # seconds


class Running(Protocol):
    """The running program of a pod."""

    address: str

    def ready(self) -> bool:
        """Whether it answers."""
        ...

    def stop(self) -> None:
        """Stop it."""
        ...


@dataclass
class _Pod:
    running: Running
    ready: bool = False


class Kubelet:
    """`starts` creates the program of a pod. A pod is not ready while it is `loading`, and does not terminate while it is
    `lingering`.
    """

    def __init__(self, api: Api, starts: Callable[[Object], Running]) -> None:
        self.api, self._starts = api, starts
        self.loading: Callable[[Object], bool] = lambda _: False
        self.lingering: Callable[[Object], bool] = lambda _: False
        self._pods: dict[str, _Pod] = {}
        self._ending = threading.Event()
        self.failed: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="kubelet", daemon=True)
        api.post("/api/v1/nodes", {"metadata": {"name": NODE}}).ok(201)
        self._thread.start()

    def stop(self) -> None:
        """Stop it and everything that it started."""
        self._ending.set()
        self._thread.join()
        for item in self._pods.values():
            item.running.stop()
        assert self.failed is None, f"the kubelet failed: {self.failed!r}"

    def running(self, labels: Mapping[str, str]) -> list[Any]:
        """The running programs of pods with these labels that are not terminating."""
        result = self.api.get("/api/v1/pods").ok().json["items"]
        return [
            self._pods[pod["metadata"]["uid"]].running
            for pod in result
            if labels.items() <= (pod["metadata"].get("labels") or {}).items()
            and "deletionTimestamp" not in pod["metadata"]
            and pod["metadata"]["uid"] in self._pods
        ]

    def _work(self) -> None:
        try:
            while not self._ending.wait(_EVERY):
                self._round()
        except BaseException as error:
            self.failed = error
            raise

    def _round(self) -> None:
        pods = self.api.get("/api/v1/pods").ok().json["items"]
        for pod in pods:
            self._sync(pod)
        for deleted in self._pods.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._pods.pop(deleted).running.stop()

    def _sync(self, pod: Object) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            self.api.post(f"{path}/binding", {"metadata": {"name": metadata["name"]}, "target": target})
            return
        known = self._pods.get(metadata["uid"])
        if "deletionTimestamp" in metadata:
            if not self.lingering(pod):
                self.api.delete(path, {"gracePeriodSeconds": 0})
        elif known is None:
            known = self._pods[metadata["uid"]] = _Pod(self._starts(pod))
            self._report(path, known.running.address, ready=False)
        elif not known.ready and known.running.ready() and not self.loading(pod):
            known.ready = True
            self._report(path, known.running.address, ready=True)

    def _report(self, path: str, address: str, *, ready: bool) -> None:
        conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
        self.api.patch(f"{path}/status", {"status": status})
