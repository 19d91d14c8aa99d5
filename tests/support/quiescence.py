"""Detects when a cluster is idle: watches some kinds and waits until none of their objects changes for a while."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tests.support.polling import eventually, pass_time, passes_quickly

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.http import Api
    from tests.support.watch_stream import Watch

Obj = dict[str, Any]


def _version(obj: Obj) -> Any:
    return obj["metadata"]["resourceVersion"]


class QuiescenceWatcher:
    """Watches all objects below `paths` in its own threads until it is closed; `essence` selects the compared part of an object."""

    def __init__(self, api: Api, *paths: str, essence: Callable[[Obj], Any] = _version) -> None:
        self._api, self._essence, self._paths = api, essence, paths
        self._known: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._last, self._changes = time.monotonic(), 0
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
        if passes_quickly():
            while self._has_changed_in(seconds):
                assert time.monotonic() - started < limit, f"something still changed after {limit:.0f} s"
            return
        while True:
            with self._changed:
                now = time.monotonic()
                left = max(self._last, started) + seconds - now
                if left <= 0:
                    return
                assert now - started < limit, f"something still changed after {limit:.0f} s"
                self._changed.wait(left)

    def _has_changed_in(self, seconds: float) -> bool:
        """Let this much time of a twin pass; whether an object changed meanwhile."""
        self._catch_up()
        before = self._changes
        pass_time(seconds)
        self._catch_up()
        return self._changes != before

    def _catch_up(self) -> None:
        """Wait until the watches have delivered what lists show."""
        for path in self._paths:
            eventually(partial(self._has_delivered, path), what=f"the watch of {path} delivers all events")

    def _has_delivered(self, path: str) -> bool:
        listed = self._list(path)[0]
        with self._changed:
            return self._known.get(path) == listed

    def _list(self, path: str) -> tuple[dict[str, Any], str]:
        """The essence of each object by its UID, and the revision of the list."""
        result = self._api.get(path).ok()
        return {obj["metadata"]["uid"]: self._essence(obj) for obj in result.json["items"]}, result.version

    def _follow(self, path: str) -> None:
        while not self._closed:
            listed, version = self._list(path)
            with self._changed:
                if self._known.setdefault(path, listed) != listed:
                    self._known[path] = listed
                    self._note()
            with self._api.watch(path, {"resourceVersion": version, "timeoutSeconds": 600}, seconds=660) as watch:
                self._open[path] = watch
                # A closed stream may break in the middle of a line.
                with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                    while (event := watch.event()) is not None and not self._closed:
                        self._apply(path, event)

    def _apply(self, path: str, event: Obj) -> None:
        """Change what is known by an event."""
        if event["type"] == "ERROR":
            return  # The stream ends, and the objects are listed again.
        uid = event["object"]["metadata"]["uid"]
        essence = None if event["type"] == "DELETED" else self._essence(event["object"])
        with self._changed:
            known = self._known[path]
            if known.get(uid) != essence:
                if essence is None:
                    del known[uid]
                else:
                    known[uid] = essence
                self._note()

    def _note(self) -> None:
        """Something has changed; `_changed` is held."""
        self._last, self._changes = time.monotonic(), self._changes + 1
        self._changed.notify_all()
