"""A durable store against a list of everything that ever happened: any order of writes, compactions, ends and crashes."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.stores import crashed, durable, obj

from sliceworks.base.errors import Expired
from sliceworks.twin.store.buckets import Window
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED

RESOURCES = ("/pods", "/nodes")
KEYS = ("a/x", "a/~", "a-b/x", "a0/x", "b/x", "b")
NAMESPACES = (None, "a", "a-b", "b", "c")
WINDOW = Window(changes=8)

resources, keys = st.sampled_from(RESOURCES), st.sampled_from(KEYS)
Event = tuple[int, str, str, Any]


def place(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name


class Model:
    """Everything that ever happened to a resource."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def at(self, revision: int) -> dict[str, Any]:
        """The objects as they were at a revision, in key order."""
        state: dict[str, Any] = {}
        for when, kind, key, value in self.events:
            if when > revision:
                break
            if kind == DELETED:
                state.pop(key, None)
            else:
                state[key] = value
        return dict(sorted(state.items()))


class Twin(RuleBasedStateMachine):
    """Runs a store and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.numbers = itertools.count()
        self.models = {resource: Model() for resource in RESOURCES}
        self.unsettled: list[tuple[str, Event]] = []
        self.revision = 1
        self.open()

    def open(self) -> None:
        self.store = durable(self.folder, WINDOW)
        self.watches: list[tuple[str, Any, list[tuple[int, str, str]]]] = []
        self.since = self.store.revision

    def teardown(self) -> None:
        self.settle()
        self.store.close()
        self.runner.close()
        shutil.rmtree(self.folder)

    @rule(resource=resources, key=keys)
    def put(self, resource: str, key: str) -> None:
        value, known = next(self.numbers), key in self.now(resource)

        async def write() -> None:
            self.store.put(resource, *place(key), obj(key, value))
            assert self.store._pending

        self.happened(resource, MODIFIED if known else ADDED, key, value)
        self.inside(write())

    @rule(resource=resources, key=keys)
    def remove(self, resource: str, key: str) -> None:
        if key not in self.now(resource):
            return

        async def write() -> None:
            self.store.remove(resource, *place(key), obj(key))

        self.happened(resource, DELETED, key, None)
        self.inside(write())

    def inside(self, main: Any) -> None:
        """Run a write so that it stays pending: the loop stops before it comes to the commit."""
        loop = self.runner.get_loop()
        with suppress(StopIteration):
            asyncio._set_running_loop(loop)
            try:
                main.send(None)
            finally:
                asyncio._set_running_loop(None)

    def happened(self, resource: str, kind: str, key: str, value: Any) -> None:
        self.revision += 1
        event = (self.revision, kind, key, value)
        self.models[resource].events.append(event)
        self.unsettled.append((resource, event))

    def now(self, resource: str) -> dict[str, Any]:
        return self.models[resource].at(self.revision)

    @rule()
    def settle(self) -> None:
        self.runner.run(self.store.settled())
        self.unsettled.clear()
        assert self.store.announced == self.store.revision

    @rule(how=st.sampled_from(("compact", "crash", "restart")))
    def interrupt(self, how: str) -> None:
        getattr(self, how)()

    def compact(self) -> None:
        self.store.compact()
        self.unsettled.clear()
        for resource in RESOURCES:
            assert self.store.compacted(resource) in {self.store.revision, 0}

    @rule(resource=resources, namespace=st.sampled_from(NAMESPACES), back=st.sampled_from((0, 1, 2, 5, 12)))
    def watch(self, resource: str, namespace: str | None, back: int) -> None:
        since = max(1, self.store.revision - back)
        if since < self.store.compacted(resource):
            with pytest.raises(Expired):
                self.store.watch(resource, lambda: None, since=since)
            return
        watch = self.store.watch(resource, lambda: None, namespace=namespace, since=since)
        self.watches.append((resource, watch, []))

    def crash(self) -> None:
        """Lose the process, and with it what was not settled."""
        for resource, event in self.unsettled:
            self.models[resource].events.remove(event)
        self.revision -= len(self.unsettled)
        self.unsettled.clear()
        dead = crashed(self.folder, Path(tempfile.mkdtemp()) / "dead")
        self.store._pending.clear()
        self.store.close()
        shutil.rmtree(self.folder)
        self.folder = dead
        self.open()

    def restart(self) -> None:
        self.store.close()
        self.unsettled.clear()
        self.open()

    @invariant()
    def same_objects(self) -> None:
        assert self.store.revision == self.revision
        for resource, model in self.models.items():
            now = model.at(self.revision)
            assert {entry.key: entry.object()["value"] for entry in self.store.scan(resource)} == now
            assert self.store.count(resource) == len(now)
            for key, value in now.items():
                entry = self.store.get(resource, *place(key))
                assert entry is not None
                assert entry.object()["value"] == value

    @invariant()
    def same_past(self) -> None:
        for resource, model in self.models.items():
            floor = self.store.compacted(resource)
            assert len(self.store._bucket(resource).changes) <= WINDOW.changes * 5 // 4 + len(self.unsettled)
            for at in range(max(floor, self.revision - 12, 1), self.revision + 1):
                past = model.at(at)
                for namespace in NAMESPACES:
                    found = [(e.key, e.object()["value"]) for e in self.store.scan(resource, namespace, at=at)]
                    assert found == [(k, v) for k, v in past.items() if namespace is None or k.startswith(f"{namespace}/")]

    @invariant()
    def watches_miss_nothing(self) -> None:
        announced = self.revision - len(self.unsettled)
        for resource, watch, seen in self.watches:
            seen += [(change.revision, change.type, change.entry.key) for change in watch.changes]
            watch.changes.clear()
            covered = [
                (when, kind, key)
                for when, kind, key, _ in self.models[resource].events
                if watch.since < when <= announced and (not watch.namespace or key.startswith(f"{watch.namespace}/"))
            ]
            assert seen == (covered[: len(seen)] if watch.closed else covered)


TestTwin = pytest.mark.timeout(300)(Twin.TestCase)
TestTwin.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
