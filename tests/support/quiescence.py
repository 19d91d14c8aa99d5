"""Detects when a cluster is idle: watches some kinds and waits until none of their objects changes for a while."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from tests.support.polling import pass_time, passes_quickly

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.http import Api
    from tests.support.watch_stream import Watch

Obj = dict[str, Any]
_DELIVERY = 0.1  # real seconds in which events of a twin arrive


def _version(obj: Obj) -> Any:
    return obj["metadata"]["resourceVersion"]


class QuiescenceWatcher:
    """Watches all objects below `paths` in its own threads until it is closed; `essence` selects the compared part of an object."""

    def __init__(self, api: Api, *paths: str, essence: Callable[[Obj], Any] = _version) -> None:
        self._api, self._essence = api, essence
        self._known: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._last = time.monotonic()
        self._closed = False
        self._open: dict[str, Watch] = {}
        self._threads = [threading.Thread(target=self._follow, args=(path,), daemon=True) for path in paths]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        for watch in list(self._open.values()):
            watch.hang_up()
        for thread in self._threads:
            thread.join()

    def rest(self, seconds: float, errand: Callable[[], Any] | None = None) -> None:
        """Wait until nothing has changed for this many seconds, counted from now.

        A slow controller may only seem idle. `errand` is then run as a barrier, and the cluster must stay idle three times as long
        as it took.
        """
        self._still(seconds)
        if errand is not None:
            started = time.monotonic()
            errand()
            self._still(max(seconds / 4, 3 * (time.monotonic() - started)))

    def _still(self, seconds: float, limit: float = 300) -> None:
        started = time.monotonic()
        while True:
            if is_quick := passes_quickly():
                pass_time(seconds)
            with self._changed:
                now = time.monotonic()
                left = max(self._last, started) + (_DELIVERY if is_quick else seconds) - now
                if left <= 0:
                    return
                assert now - started < limit, f"something still changed after {limit:.0f} s"
                self._changed.wait(left)

    def _follow(self, path: str) -> None:
        while not self._closed:
            query = {"resourceVersion": self._api.get(path, {"limit": 1}).ok().version, "timeoutSeconds": 600}
            with self._api.watch(path, query, seconds=660) as watch:
                self._open[path] = watch
                # A closed stream may break in the middle of a line.
                with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                    while (event := watch.event()) is not None and not self._closed:
                        self._note(event)

    def _note(self, event: Obj) -> None:
        uid = event["object"].get("metadata", {}).get("uid", "")
        essence = None if event["type"] in ("DELETED", "ERROR") else self._essence(event["object"])
        if essence is None or self._known.get(uid, ()) != essence:
            self._known[uid] = essence
            with self._changed:
                self._last = time.monotonic()
                self._changed.notify_all()
