"""When a write counts: nobody hears of it before it is durable, and nobody at all when it cannot be."""

from __future__ import annotations

import asyncio
import sqlite3
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.stores import PODS, drain, durable, keys, put, remove, run, told, values

from sliceworks.base.errors import ServiceUnavailable, SliceworksError
from sliceworks.twin.auth.certificates import Certificates
from sliceworks.twin.store.buckets import Window
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED, Change
from sliceworks.twin.store.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.twin.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = durable(tmp_path)
    yield store
    with suppress(sqlite3.ProgrammingError, OSError):
        store.close()


def rows(tmp_path: Path) -> list[int]:
    """The revisions that another connection finds in the file."""
    db = sqlite3.connect(tmp_path / "store.db")
    found = [revision for (revision,) in db.execute("SELECT revision FROM log ORDER BY revision")]
    db.close()
    return found


def test_a_write_is_announced_when_it_is_in_the_file_and_not_before(store: Store, tmp_path: Path) -> None:
    async def main() -> None:
        heard: list[tuple[int, list[int]]] = []
        store.subscribe(lambda change: heard.append((change.revision, rows(tmp_path))))
        watch = store.watch(PODS, lambda: None, since=1)
        put(store, "a/x")
        put(store, "a/y")
        assert keys(store.scan(PODS)) == ["a/x", "a/y"], "writers see what they wrote at once"
        assert (store.revision, store.announced, heard, list(watch.changes)) == (3, 1, [], [])
        assert rows(tmp_path) == []
        await store.settled()
        assert heard == [(2, [2, 3]), (3, [2, 3])]
        assert drain(watch) == [(2, ADDED, "a/x"), (3, ADDED, "a/y")]
        assert store.announced == 3

    run(main())


def test_writes_of_one_turn_share_a_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    commit = Journal.commit

    def counted(self: Journal, changes: list[Change], *rest: Any) -> None:
        batches.append(len(changes))
        commit(self, changes, *rest)

    monkeypatch.setattr(Journal, "commit", counted)

    async def writer(number: int) -> None:
        put(store, f"a/{number}")
        await store.settled()
        put(store, f"a/{number}", "again")
        await store.settled()

    async def main() -> None:
        await asyncio.gather(*(writer(number) for number in range(16)))

    run(main())
    assert batches == [16, 16]


def test_nothing_to_wait_for_when_nothing_is_pending(store: Store) -> None:
    async def main() -> None:
        with pytest.raises(StopIteration):
            store.settled().send(None)
        put(store, "a/x")
        await store.settled()
        with pytest.raises(StopIteration):
            store.settled().send(None)

    run(main())


def test_a_waiter_that_is_cancelled_takes_nobody_with_it(store: Store) -> None:
    async def main() -> None:
        watch = store.watch(PODS, lambda: None, since=1)
        put(store, "a/x")
        first, second = asyncio.ensure_future(store.settled()), asyncio.ensure_future(store.settled())
        asyncio.get_running_loop().call_soon(first.cancel)
        await second
        assert first.cancelled() or first.done()
        assert drain(watch) == [(2, ADDED, "a/x")]
        put(store, "a/x")
        third = asyncio.ensure_future(store.settled())
        third.cancel()
        await store.settled()
        assert drain(watch) == [(3, MODIFIED, "a/x")]

    run(main())


def test_a_watch_that_begins_while_a_write_is_pending_sees_it_once(store: Store) -> None:
    async def main() -> None:
        put(store, "a/x")
        await store.settled()
        put(store, "a/x")
        from_before, from_now = (store.watch(PODS, lambda: None, since=since) for since in (1, store.revision))
        assert told(from_before.changes) == [(2, ADDED, "a/x")]
        await store.settled()
        put(store, "a/x")
        await store.settled()
        assert drain(from_before) == [(2, ADDED, "a/x"), (3, MODIFIED, "a/x"), (4, MODIFIED, "a/x")]
        assert drain(from_now) == [(4, MODIFIED, "a/x")]

    run(main())


def test_a_subscriber_that_comes_while_writes_are_pending_hears_the_durable_state_first(store: Store) -> None:
    async def main() -> None:
        put(store, "a/x", 1)
        put(store, "a/y", 1)
        await store.settled()
        put(store, "a/x", 2)
        remove(store, "a/y")
        put(store, "a/z", 1)
        heard: list[tuple[str, str, Any]] = []
        store.subscribe(lambda change: heard.append((change.type, change.entry.key, change.obj["value"])))
        assert heard == [(ADDED, "a/x", 1), (ADDED, "a/y", 1)]
        await store.settled()
        assert heard[2:] == [(MODIFIED, "a/x", 2), (DELETED, "a/y", None), (ADDED, "a/z", 1)]

    run(main())


def test_history_keeps_what_is_not_announced_yet(tmp_path: Path) -> None:
    store = durable(tmp_path, Window(changes=10))

    async def main() -> None:
        watch = store.watch(PODS, lambda: None, since=1)
        for number in range(50):
            put(store, "a/x", number)
        assert values(store.scan(PODS, at=store.announced)) == {}
        assert len(store.watch(PODS, lambda: None, since=1).changes) == 0
        await store.settled()
        assert watch.closed, "it was told of more at once than history holds"
        assert store.compacted(PODS) == 41
        store.close()

    run(main())


def test_compacting_while_writes_are_pending(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        put(store, "a/x")
        waiter = asyncio.ensure_future(store.settled())
        await asyncio.sleep(0)
        put(store, "a/x")
        store.compact()
        assert (store.announced, store.compacted(PODS)) == (3, 3)
        await waiter
        await asyncio.sleep(0)

    run(main())
    assert not caplog.records


def test_closing_writes_what_is_pending(tmp_path: Path) -> None:
    async def main() -> None:
        store = durable(tmp_path)
        put(store, "a/x")
        store.close()

    run(main())
    assert rows(tmp_path) == [2]


@pytest.mark.parametrize("limit", ["max_page_count = 1", "query_only = ON"], ids=["disk full", "read-only"])
def test_when_the_file_cannot_be_written_nobody_is_answered(store: Store, tmp_path: Path, limit: str) -> None:
    ends: list[Exception] = []
    store.broken = ends.append

    async def main() -> None:
        put(store, "a/x", 1)
        await store.settled()
        heard: list[Change] = []
        store.subscribe(heard.append)
        heard.clear()
        watch = store.watch(PODS, lambda: None, since=store.revision)
        assert store._journal is not None
        store._journal._db.execute(f"PRAGMA {limit}")
        put(store, "a/x", "x" * 100_000)
        waiters = [asyncio.ensure_future(store.settled()) for _ in range(3)]
        outcomes = await asyncio.gather(*waiters, return_exceptions=True)
        assert all(isinstance(outcome, ServiceUnavailable) for outcome in outcomes), outcomes
        assert (heard, list(watch.changes), store.announced) == ([], [], 2)
        for attempt in (lambda: put(store, "a/y"), lambda: remove(store, "a/x"), store.compact):
            with pytest.raises(ServiceUnavailable, match="the store cannot be written"):
                attempt()
        with pytest.raises(ServiceUnavailable):
            await store.settled()

    run(main())
    assert len(ends) == 1
    assert rows(tmp_path) == [2]
    store.close()
    again = durable(tmp_path)
    assert values(again.scan(PODS)) == {"a/x": 1}
    assert again.revision == 2
    again.close()


def test_a_compaction_that_fails_ends_it_as_well(store: Store) -> None:
    ends: list[Exception] = []
    store.broken = ends.append

    async def main() -> None:
        put(store, "a/x")
        await store.settled()
        assert store._journal is not None
        store._journal._db.execute("PRAGMA query_only = ON")
        with pytest.raises(ServiceUnavailable):
            store.compact()

    run(main())
    assert len(ends) == 1


def test_the_client_is_refused_and_the_process_ends_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sliceworks.twin.main import TwinOptions, serve

    full, last = False, 0.0
    commit = Journal.commit

    def failing(self: Journal, *arguments: Any) -> None:
        nonlocal last
        if full:
            raise sqlite3.OperationalError("database or disk is full")
        last = time.monotonic()
        commit(self, *arguments)

    async def main() -> None:
        nonlocal full
        serving = asyncio.ensure_future(serve(TwinOptions("t", tmp_path, workloads=False)))
        while not (tmp_path / "ready.json").exists() or time.monotonic() - last < 0.3:
            await asyncio.sleep(0.01)
        full = True
        assert b" 503 " in await asyncio.wait_for(_create_namespace(tmp_path), 10)
        await asyncio.wait_for(serving, 10)

    monkeypatch.setattr(Journal, "commit", failing)
    with pytest.raises(SliceworksError, match="the store cannot be written: database or disk is full"):
        asyncio.run(main())
    assert not (tmp_path / "ready.json").exists()


async def _create_namespace(folder: Path) -> bytes:
    """The status line of the answer."""
    tls = ssl.create_default_context(cadata=Certificates(folder / "ca.pem", folder / "server.pem").authority())
    port, token = orjson.loads((folder / "ready.json").read_bytes())["port"], (folder / "token").read_text()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
    body = b'{"metadata":{"name":"new"}}'
    writer.write(f"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode())
    writer.write(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    line = await reader.readline()
    writer.close()
    return line


def test_durable_runs_in_virtual_time_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    async def life(store: Store) -> None:
        async def writer(number: int) -> None:
            for step in range(20):
                put(store, f"a/{number}", step)
                await store.settled()
                await asyncio.sleep(0.5 + number / 10)

        await asyncio.gather(*(writer(number) for number in range(5)))
        store.close()

    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        run(life(durable(tmp_path / name)))
        db = sqlite3.connect(tmp_path / name / "store.db")
        found.append("\n".join(db.iterdump()))
        db.close()
    assert found[0] == found[1]
    assert len(found[0]) > 10_000
