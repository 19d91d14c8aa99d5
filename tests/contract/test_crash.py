"""The twin is killed at random times under write load: acknowledged writes survive, and watches resume."""

from __future__ import annotations

import http.client
import os
import random
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.support.clusters import TwinCluster
from tests.support.objects import config_map
from tests.support.polling import PATIENCE

from sliceworks.base.clock import wait_until

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 50 if os.environ.get("SLICEWORKS_FUZZ") else 12
WRITERS = 6
BROKEN = (http.client.HTTPException, OSError)
MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass
class WriteLog:
    """Acknowledged writes (counter of each writer, latest version) and the events of the watch."""

    counters: dict[str, int] = field(default_factory=dict)
    version: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    seen_version: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledged(self, name: str, counter: int, version: int) -> None:
        """Record an acknowledged write."""
        with self.lock:
            self.counters[name] = counter
            self.version = max(self.version, version)

    def has_grown(self, version: int) -> bool:
        """Whether a write with this version was acknowledged."""
        return self.version >= version


@pytest.mark.timeout(600)
def test_no_acknowledged_write_is_lost(tmp_path: Path) -> None:
    chance, log = random.Random(3), WriteLog()
    twin = TwinCluster(tmp_path, memory=False)
    try:
        for index in range(WRITERS):
            version = twin.api.post(MAPS, config_map(f"w{index}", {"n": "0"}, labels={"crash": "yes"})).ok(201).version
            log.acknowledged(f"w{index}", 0, int(version))
        log.seen_version = log.version
        for round_number in range(ROUNDS):
            load = [threading.Thread(target=write, args=(twin, log, f"w{index}")) for index in range(WRITERS)]
            load.append(threading.Thread(target=follow, args=(twin, log)))
            for thread in load:
                thread.start()
            assert wait_until(partial(log.has_grown, log.version + WRITERS), PATIENCE)
            time.sleep(chance.uniform(0.0, 0.1))
            twin.process.kill()
            for thread in load:
                thread.join(PATIENCE)
            twin.start()
            check(twin, log, round_number)
        assert log.version > ROUNDS * WRITERS
    finally:
        twin.stop()


def write(twin: TwinCluster, log: WriteLog, name: str) -> None:
    """Increment a counter in one object until the server dies; the counter shows lost and repeated writes."""
    counter = log.counters[name]
    api = twin.api.as_token(twin.token)
    try:
        while True:
            counter += 1
            response = api.patch(f"{MAPS}/{name}", {"data": {"n": str(counter)}})
            assert response.status == 200, response.body
            log.acknowledged(name, counter, int(response.version))
    except BROKEN:
        return


def follow(twin: TwinCluster, log: WriteLog) -> None:
    """Watch from the version where the last watch ended."""
    try:
        query = {"resourceVersion": str(log.seen_version), "labelSelector": "crash=yes"}
        with twin.api.watch(MAPS, query) as watch:
            while True:
                remember(log, watch.next())
    except (*BROKEN, AssertionError, ValueError):
        return


def remember(log: WriteLog, event: dict[str, object]) -> None:
    """Record a watch event: versions increase, counters increase by one."""
    obj = event["object"]
    assert isinstance(obj, dict)
    assert event["type"] == "MODIFIED"
    name, counter, version = obj["metadata"]["name"], int(obj["data"]["n"]), int(obj["metadata"]["resourceVersion"])
    if version <= log.seen_version or counter != log.seen.get(name, 0) + 1:
        log.seen["broken"] = log.seen.get("broken", 0) + 1
    log.seen[name], log.seen_version = counter, version


def check(twin: TwinCluster, log: WriteLog, round_number: int) -> None:
    """Check after a restart: no write is lost or invented, versions did not decrease, the watch has no gap."""
    listed = twin.api.get(MAPS, {"labelSelector": "crash=yes"}).ok(200)
    assert int(listed.version) >= log.version, f"round {round_number}: the version went back"
    now = {item["metadata"]["name"]: int(item["data"]["n"]) for item in listed.json["items"]}
    for name, counter in log.counters.items():
        assert now[name] in (counter, counter + 1), f"round {round_number}: {name} was {counter}, is {now[name]}"
        log.counters[name] = now[name]
    if log.seen_version < max(int(item["metadata"]["resourceVersion"]) for item in listed.json["items"]):
        with twin.api.watch(MAPS, {"resourceVersion": str(log.seen_version), "labelSelector": "crash=yes"}) as watch:
            while any(log.seen.get(name, 0) < counter for name, counter in now.items()):
                remember(log, watch.next())
    assert "broken" not in log.seen, f"round {round_number}: the watch had gaps or went back"
