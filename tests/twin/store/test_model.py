"""A durable store compared with a model: random writes, compactions, restarts and crashes."""

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
from sliceworks.twin.store.watch_cache import ADDED, DELETED, MODIFIED, HistoryWindow

RESOURCES = ("/pods", "/nodes")
KEYS = ("a/x", "a/~", "a-b/x", "a0/x", "b/x", "b")
NAMESPACES = (None, "a", "a-b", "b", "c")
WINDOW = HistoryWindow(changes=8)

resources, keys = st.sampled_from(RESOURCES), st.sampled_from(KEYS)
Event = tuple[int, str, str, Any]


def split_key(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name


class Model:
    """All changes of a resource."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def at(self, revision: int) -> dict[str, Any]:
        """The objects at a revision, in key order."""
        state: dict[str, Any] = {}
        for changed_at, kind, key, value in self.events:
            if changed_at > revision:
                break
            if kind == DELETED:
                state.pop(key, None)
            else:
                state[key] = value
        return dict(sorted(state.items()))


class StoreMachine(RuleBasedStateMachine):
    """Applies the same operations to a store and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.numbers = itertools.count()
        self.models = {resource: Model() for resource in RESOURCES}
        self.pending: list[tuple[str, Event]] = []
        self.revision = 1
        self.open()

    def open(self) -> None:
        self.store = durable(self.folder, WINDOW)
        self.watches: list[tuple[str, Any, list[tuple[int, str, str]]]] = []
        self.since = self.store.revision

    def teardown(self) -> None:
        self.wait()
        self.store.close()
        self.runner.close()
        shutil.rmtree(self.folder)

    @rule(resource=resources, key=keys)
    def put(self, resource: str, key: str) -> None:
        value, exists = next(self.numbers), key in self.now(resource)

        async def write() -> None:
            self.store.put(resource, *split_key(key), obj(key, value))
            assert self.store._pending

        self.record(resource, MODIFIED if exists else ADDED, key, value)
        self.run_pending(write())

    @rule(resource=resources, key=keys)
    def remove(self, resource: str, key: str) -> None:
        if key not in self.now(resource):
            return

        async def write() -> None:
            self.store.remove(resource, *split_key(key), obj(key))

        self.record(resource, DELETED, key, None)
        self.run_pending(write())

    def run_pending(self, main: Any) -> None:
        """Run a write that stays pending: the event loop stops before the commit."""
        loop = self.runner.get_loop()
        with suppress(StopIteration):
            asyncio._set_running_loop(loop)
            try:
                main.send(None)
            finally:
                asyncio._set_running_loop(None)

    def record(self, resource: str, kind: str, key: str, value: Any) -> None:
        self.revision += 1
        event = (self.revision, kind, key, value)
        self.models[resource].events.append(event)
        self.pending.append((resource, event))

    def now(self, resource: str) -> dict[str, Any]:
        return self.models[resource].at(self.revision)

    @rule()
    def wait(self) -> None:
        self.runner.run(self.store.wait_durable())
        self.pending.clear()
        assert self.store.announced == self.store.revision

    @rule(how=st.sampled_from(("compact", "crash", "restart")))
    def interrupt(self, how: str) -> None:
        getattr(self, how)()

    def compact(self) -> None:
        self.store.compact()
        self.pending.clear()
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
        """Kill the process; pending writes are lost."""
        for resource, event in self.pending:
            self.models[resource].events.remove(event)
        self.revision -= len(self.pending)
        self.pending.clear()
        copy = crashed(self.folder, Path(tempfile.mkdtemp()) / "copy")
        self.store._pending.clear()
        self.store.close()
        shutil.rmtree(self.folder)
        self.folder = copy
        self.open()

    def restart(self) -> None:
        self.store.close()
        self.pending.clear()
        self.open()

    @invariant()
    def same_objects(self) -> None:
        assert self.store.revision == self.revision
        for resource, model in self.models.items():
            now = model.at(self.revision)
            assert {entry.key: entry.object()["value"] for entry in self.store.scan(resource)} == now
            assert self.store.count(resource) == len(now)
            for key, value in now.items():
                entry = self.store.get(resource, *split_key(key))
                assert entry is not None
                assert entry.object()["value"] == value

    @invariant()
    def same_past(self) -> None:
        for resource, model in self.models.items():
            compacted = self.store.compacted(resource)
            assert len(self.store._cache(resource).changes) <= WINDOW.changes * 5 // 4 + len(self.pending)
            for at in range(max(compacted, self.revision - 12, 1), self.revision + 1):
                past = model.at(at)
                for namespace in NAMESPACES:
                    scanned = [(e.key, e.object()["value"]) for e in self.store.scan(resource, namespace, at=at)]
                    assert scanned == [(k, v) for k, v in past.items() if namespace is None or k.startswith(f"{namespace}/")]

    @invariant()
    def watches_miss_nothing(self) -> None:
        announced = self.revision - len(self.pending)
        for resource, watch, seen in self.watches:
            seen += [(change.revision, change.type, change.entry.key) for change in watch.changes]
            watch.changes.clear()
            covered = [
                (changed_at, kind, key)
                for changed_at, kind, key, _ in self.models[resource].events
                if watch.since < changed_at <= announced and (not watch.namespace or key.startswith(f"{watch.namespace}/"))
            ]
            assert seen == (covered[: len(seen)] if watch.closed else covered)


TestStoreMachine = pytest.mark.timeout(300)(StoreMachine.TestCase)
TestStoreMachine.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
