"""The twin is killed at random moments under write load: what it acknowledged is there again, and watches go on."""

from __future__ import annotations

import http.client
import random
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.support.clusters import TwinCluster
from tests.support.objects import config_map

from sliceworks.base.clock import wait_until

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 50
WRITERS = 6
BROKEN = (http.client.HTTPException, OSError)
MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass
class Ledger:
    """What was acknowledged (counter of each writer, newest version) and what the watch has shown."""

    counters: dict[str, int] = field(default_factory=dict)
    version: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    seen_version: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledged(self, name: str, counter: int, version: int) -> None:
        """A write was answered with success."""
        with self.lock:
            self.counters[name] = counter
            self.version = max(self.version, version)

    def has_grown(self, version: int) -> bool:
        """Whether as much was acknowledged."""
        return self.version >= version


@pytest.mark.timeout(600)
def test_no_acknowledged_write_is_lost(tmp_path: Path) -> None:
    chance, ledger = random.Random(3), Ledger()
    twin = TwinCluster(tmp_path, memory=False)
    try:
        for index in range(WRITERS):
            version = twin.api.post(MAPS, config_map(f"w{index}", {"n": "0"}, labels={"crash": "yes"})).ok(201).version
            ledger.acknowledged(f"w{index}", 0, int(version))
        ledger.seen_version = ledger.version
        for round_number in range(ROUNDS):
            load = [threading.Thread(target=write, args=(twin, ledger, f"w{index}")) for index in range(WRITERS)]
            load.append(threading.Thread(target=follow, args=(twin, ledger)))
            for thread in load:
                thread.start()
            assert wait_until(partial(ledger.has_grown, ledger.version + WRITERS), 30)
            time.sleep(chance.uniform(0.0, 0.1))
            twin.process.kill()
            for thread in load:
                thread.join(30)
            twin.start()
            check(twin, ledger, round_number)
        assert ledger.version > ROUNDS * WRITERS
    finally:
        twin.stop()


def write(twin: TwinCluster, ledger: Ledger, name: str) -> None:
    """Count up in one object until the server dies; the counter tells whether a write got lost or came twice."""
    counter = ledger.counters[name]
    api = twin.api.as_token(twin.token)
    try:
        while True:
            counter += 1
            answer = api.patch(f"{MAPS}/{name}", {"data": {"n": str(counter)}})
            assert answer.status == 200, answer.body
            ledger.acknowledged(name, counter, int(answer.version))
    except BROKEN:
        return


def follow(twin: TwinCluster, ledger: Ledger) -> None:
    """Watch from where the last watch ended."""
    try:
        query = {"resourceVersion": str(ledger.seen_version), "labelSelector": "crash=yes"}
        with twin.api.watch(MAPS, query) as watch:
            while True:
                remember(ledger, watch.next())
    except (*BROKEN, AssertionError, ValueError):
        return


def remember(ledger: Ledger, event: dict[str, object]) -> None:
    """An event of the watch: versions rise, counters go up one by one."""
    obj = event["object"]
    assert isinstance(obj, dict)
    assert event["type"] == "MODIFIED"
    name, counter, version = obj["metadata"]["name"], int(obj["data"]["n"]), int(obj["metadata"]["resourceVersion"])
    if version <= ledger.seen_version or counter != ledger.seen.get(name, 0) + 1:
        ledger.seen["broken"] = ledger.seen.get("broken", 0) + 1
    ledger.seen[name], ledger.seen_version = counter, version


def check(twin: TwinCluster, ledger: Ledger, round_number: int) -> None:
    """After a restart: nothing lost, nothing invented, the version has not gone back, the watch catches up without a gap."""
    listed = twin.api.get(MAPS, {"labelSelector": "crash=yes"}).ok(200)
    assert int(listed.version) >= ledger.version, f"round {round_number}: the version went back"
    now = {item["metadata"]["name"]: int(item["data"]["n"]) for item in listed.json["items"]}
    for name, counter in ledger.counters.items():
        assert now[name] in (counter, counter + 1), f"round {round_number}: {name} was {counter}, is {now[name]}"
        ledger.counters[name] = now[name]
    if ledger.seen_version < max(int(item["metadata"]["resourceVersion"]) for item in listed.json["items"]):
        with twin.api.watch(MAPS, {"resourceVersion": str(ledger.seen_version), "labelSelector": "crash=yes"}) as watch:
            while any(ledger.seen.get(name, 0) < counter for name, counter in now.items()):
                remember(ledger, watch.next())
    assert "broken" not in ledger.seen, f"round {round_number}: the watch had gaps or went back"
