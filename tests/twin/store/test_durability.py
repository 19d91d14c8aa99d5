"""Durability: writes are announced once they are durable, and never after a failed commit."""

from __future__ import annotations

import asyncio
import sqlite3
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.stores import PODS, drain, durable, events, keys, put, remove, run, values

from sliceworks.base.errors import ServiceUnavailable, SliceworksError
from sliceworks.twin.apiserver.auth.certificates import Certificates
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.watch_cache import ADDED, DELETED, MODIFIED, Change, HistoryWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sliceworks.twin.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = durable(tmp_path)
    yield store
    with suppress(sqlite3.ProgrammingError, OSError):
        store.close()


def rows(tmp_path: Path) -> list[int]:
    """The revisions that another connection reads from the file."""
    db = sqlite3.connect(tmp_path / "store.db")
    result = [revision for (revision,) in db.execute("SELECT revision FROM log ORDER BY revision")]
    db.close()
    return result


def test_write_is_announced_after_its_commit(store: Store, tmp_path: Path) -> None:
    async def main() -> None:
        announced: list[tuple[int, list[int]]] = []
        store.subscribe(lambda change: announced.append((change.revision, rows(tmp_path))))
        watch = store.watch(PODS, lambda: None, since=1)
        put(store, "a/x")
        put(store, "a/y")
        assert keys(store.scan(PODS)) == ["a/x", "a/y"], "a write is readable at once"
        assert (store.revision, store.announced, announced, list(watch.changes)) == (3, 1, [], [])
        assert rows(tmp_path) == []
        await store.wait_durable()
        assert announced == [(2, [2, 3]), (3, [2, 3])]
        assert drain(watch) == [(2, ADDED, "a/x"), (3, ADDED, "a/y")]
        assert store.announced == 3

    run(main())


def test_writes_of_one_loop_turn_share_a_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    commit = Journal.commit

    def counted(self: Journal, changes: list[Change], *rest: Any) -> None:
        batches.append(len(changes))
        commit(self, changes, *rest)

    monkeypatch.setattr(Journal, "commit", counted)

    async def writer(number: int) -> None:
        put(store, f"a/{number}")
        await store.wait_durable()
        put(store, f"a/{number}", "second")
        await store.wait_durable()

    async def main() -> None:
        await asyncio.gather(*(writer(number) for number in range(16)))

    run(main())
    assert batches == [16, 16]


def test_wait_durable_returns_at_once_without_pending_writes(store: Store) -> None:
    async def main() -> None:
        with pytest.raises(StopIteration):
            store.wait_durable().send(None)
        put(store, "a/x")
        await store.wait_durable()
        with pytest.raises(StopIteration):
            store.wait_durable().send(None)

    run(main())


def test_cancelled_waiter_does_not_affect_others(store: Store) -> None:
    async def main() -> None:
        watch = store.watch(PODS, lambda: None, since=1)
        put(store, "a/x")
        first, second = asyncio.ensure_future(store.wait_durable()), asyncio.ensure_future(store.wait_durable())
        asyncio.get_running_loop().call_soon(first.cancel)
        await second
        assert first.cancelled() or first.done()
        assert drain(watch) == [(2, ADDED, "a/x")]
        put(store, "a/x")
        third = asyncio.ensure_future(store.wait_durable())
        third.cancel()
        await store.wait_durable()
        assert drain(watch) == [(3, MODIFIED, "a/x")]

    run(main())


def test_watch_started_during_a_pending_write_gets_it_once(store: Store) -> None:
    async def main() -> None:
        put(store, "a/x")
        await store.wait_durable()
        put(store, "a/x")
        from_before, from_now = (store.watch(PODS, lambda: None, since=since) for since in (1, store.revision))
        assert events(from_before.changes) == [(2, ADDED, "a/x")]
        await store.wait_durable()
        put(store, "a/x")
        await store.wait_durable()
        assert drain(from_before) == [(2, ADDED, "a/x"), (3, MODIFIED, "a/x"), (4, MODIFIED, "a/x")]
        assert drain(from_now) == [(4, MODIFIED, "a/x")]

    run(main())


def test_subscriber_added_during_pending_writes_gets_the_durable_state_first(store: Store) -> None:
    async def main() -> None:
        put(store, "a/x", 1)
        put(store, "a/y", 1)
        await store.wait_durable()
        put(store, "a/x", 2)
        remove(store, "a/y")
        put(store, "a/z", 1)
        announced: list[tuple[str, str, Any]] = []
        store.subscribe(lambda change: announced.append((change.type, change.entry.key, change.obj["value"])))
        assert announced == [(ADDED, "a/x", 1), (ADDED, "a/y", 1)]
        await store.wait_durable()
        assert announced[2:] == [(MODIFIED, "a/x", 2), (DELETED, "a/y", None), (ADDED, "a/z", 1)]

    run(main())


def test_history_keeps_changes_that_are_not_announced(tmp_path: Path) -> None:
    store = durable(tmp_path, HistoryWindow(changes=10))

    async def main() -> None:
        watch = store.watch(PODS, lambda: None, since=1)
        for number in range(50):
            put(store, "a/x", number)
        assert values(store.scan(PODS, at=store.announced)) == {}
        assert len(store.watch(PODS, lambda: None, since=1).changes) == 0
        await store.wait_durable()
        assert watch.closed, "it got more changes at once than history holds"
        assert store.compacted(PODS) == 41
        store.close()

    run(main())


def test_compaction_with_pending_writes(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        put(store, "a/x")
        waiter = asyncio.ensure_future(store.wait_durable())
        await asyncio.sleep(0)
        put(store, "a/x")
        store.compact()
        assert (store.announced, store.compacted(PODS)) == (3, 3)
        await waiter
        await asyncio.sleep(0)

    run(main())
    assert not caplog.records


def test_close_commits_pending_writes(tmp_path: Path) -> None:
    async def main() -> None:
        store = durable(tmp_path)
        put(store, "a/x")
        store.close()

    run(main())
    assert rows(tmp_path) == [2]


@pytest.mark.parametrize("limit", ["max_page_count = 1", "query_only = ON"], ids=["disk full", "read-only"])
def test_failed_commit_fails_all_waiters_and_further_writes(store: Store, tmp_path: Path, limit: str) -> None:
    failures: list[Exception] = []
    store.broken = failures.append

    async def main() -> None:
        put(store, "a/x", 1)
        await store.wait_durable()
        announced: list[Change] = []
        store.subscribe(announced.append)
        announced.clear()
        watch = store.watch(PODS, lambda: None, since=store.revision)
        assert store._journal is not None
        store._journal._db.execute(f"PRAGMA {limit}")
        put(store, "a/x", "x" * 100_000)
        waiters = [asyncio.ensure_future(store.wait_durable()) for _ in range(3)]
        outcomes = await asyncio.gather(*waiters, return_exceptions=True)
        assert all(isinstance(outcome, ServiceUnavailable) for outcome in outcomes), outcomes
        assert (announced, list(watch.changes), store.announced) == ([], [], 2)
        for attempt in (lambda: put(store, "a/y"), lambda: remove(store, "a/x"), store.compact):
            with pytest.raises(ServiceUnavailable, match="the store cannot be written"):
                attempt()
        with pytest.raises(ServiceUnavailable):
            await store.wait_durable()

    run(main())
    assert len(failures) == 1
    assert rows(tmp_path) == [2]
    store.close()
    reopened = durable(tmp_path)
    assert values(reopened.scan(PODS)) == {"a/x": 1}
    assert reopened.revision == 2
    reopened.close()


def test_failed_compaction_breaks_the_store(store: Store) -> None:
    failures: list[Exception] = []
    store.broken = failures.append

    async def main() -> None:
        put(store, "a/x")
        await store.wait_durable()
        assert store._journal is not None
        store._journal._db.execute("PRAGMA query_only = ON")
        with pytest.raises(ServiceUnavailable):
            store.compact()

    run(main())
    assert len(failures) == 1


def test_twin_exits_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sliceworks.twin.main import TwinOptions, serve

    commit = Journal.commit

    def failing(self: Journal, changes: Iterable[Change], *arguments: Any) -> None:
        changes = list(changes)
        if any(change.name == "new" for change in changes):
            raise sqlite3.OperationalError("database or disk is full")
        commit(self, changes, *arguments)

    async def main() -> None:
        serving = asyncio.ensure_future(serve(TwinOptions("t", tmp_path, workloads=False)))
        while not (tmp_path / "ready.json").exists():
            await asyncio.sleep(0.01)
        assert b" 503 " in await asyncio.wait_for(_create_namespace(tmp_path), 120)
        await asyncio.wait_for(serving, 120)

    monkeypatch.setattr(Journal, "commit", failing)
    with pytest.raises(SliceworksError, match="the store cannot be written: database or disk is full"):
        asyncio.run(main())
    assert not (tmp_path / "ready.json").exists()


async def _create_namespace(folder: Path) -> bytes:
    """The status line of the response."""
    tls = ssl.create_default_context(cadata=Certificates(folder / "ca.pem", folder / "server.pem").authority())
    port, token = orjson.loads((folder / "ready.json").read_bytes())["port"], (folder / "token").read_text()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
    body = b'{"metadata":{"name":"new"}}'
    writer.write(f"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode())
    writer.write(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    line = await reader.readline()
    writer.close()
    return line


def test_durable_runs_in_virtual_time_are_deterministic(tmp_path: Path) -> None:
    async def write_all(store: Store) -> None:
        async def writer(number: int) -> None:
            for step in range(20):
                put(store, f"a/{number}", step)
                await store.wait_durable()
                await asyncio.sleep(0.5 + number / 10)

        await asyncio.gather(*(writer(number) for number in range(5)))
        store.close()

    dumps = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        run(write_all(durable(tmp_path / name)))
        db = sqlite3.connect(tmp_path / name / "store.db")
        dumps.append("\n".join(db.iterdump()))
        db.close()
    assert dumps[0] == dumps[1]
    assert len(dumps[0]) > 10_000
