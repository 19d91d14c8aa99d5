"""Fuzzing: no request causes an internal error, and rejected requests change nothing."""

from __future__ import annotations

import random
from typing import Any

import orjson
from tests.support import discovery
from tests.support.clouds import CLUSTER, PLACE, POOLS, Cloud, run_on_cloud

from sliceworks.base import clock

ROUNDS = 1500
SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**62,
    1.5,
    "",
    "x",
    "5",
    "é" * 50,
    "a/b",
    "..",
    "projects/-",
    "\x00",
    [],
    {},
    [[]],
    [{}],
]
PATHS = (
    f"{PLACE}/clusters",
    CLUSTER,
    POOLS,
    f"{POOLS}/one",
    f"{POOLS}/one:setSize",
    f"{POOLS}/one:setManagement",
    f"{POOLS}/one:setAutoscaling",
    f"{CLUSTER}:setResourceLabels",
    f"{CLUSTER}:setMaintenancePolicy",
    f"{CLUSTER}:setLocations",
    f"{CLUSTER}:setLegacyAbac",
    f"{PLACE}/operations",
    f"{PLACE}/operations/x:cancel",
    f"{PLACE}/serverConfig",
    "projects/p/zones/us-central2-b/clusters/c/nodePools/one/setSize",
    "projects/%2F/locations/%00/clusters/%C3%28/nodePools/..",
    "projects/p/locations/-/clusters?parent=x&pageSize=%zz",
    "::",
)


class Fuzzer:
    """Generates bodies that are partly valid."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.messages = discovery.reduced("container", "v1")

    def body(self, message: str) -> Any:
        if self.random.random() < 0.05:
            return self.random.choice(SCALARS)
        fields = self.messages.get(message) or {}
        chosen = self.random.sample(sorted(fields), min(len(fields), self.random.randint(0, 6)))
        result = {name: self.value(fields[name], 0) for name in chosen}
        if self.random.random() < 0.1:
            result[self.random.choice(("colour", "", "a.b", "kind"))] = self.random.choice(SCALARS)
        return self.sensible(message, result)

    def sensible(self, message: str, obj: Any) -> Any:
        """Sometimes a valid value, to pass the first checks."""
        if message == "CreateNodePoolRequest" and self.random.random() < 0.8:
            pool: dict[str, Any] = {
                "name": self.random.choice(("one", "two", "x-1")),
                "initialNodeCount": self.random.randint(0, 3),
            }
            machine = self.random.choice(("n2-standard-2", "ct4p-hightpu-4t", "a2-highgpu-1g", "n1-standard-4", "n1-standard-1"))
            extra = self.value("#NodePool", 0)
            pool |= {"config": {"machineType": machine}, "management": {"autoRepair": True, "autoUpgrade": True}}
            return {"nodePool": {**(extra if isinstance(extra, dict) else {}), **pool}}
        return obj

    def value(self, kind: str, depth: int) -> Any:
        if self.random.random() < 0.15 or depth > 3:
            return self.random.choice(SCALARS)
        if kind.startswith("["):
            return [self.value(kind[1:-1], depth + 1) for _ in range(self.random.randint(0, 2))]
        if kind.startswith("{"):
            return {str(index): self.value(kind[1:-1], depth + 1) for index in range(self.random.randint(0, 2))}
        if kind.startswith("#"):
            fields = self.messages[kind[1:]]
            chosen = self.random.sample(sorted(fields), min(len(fields), self.random.randint(0, 4)))
            return {name: self.value(fields[name], depth + 1) for name in chosen}
        simple: dict[str, Any] = {"string": "us-central2-b", "int32": 2, "int64": "3", "bool": True, "double": 0.5, "any": {"a": 1}}
        return simple[kind] if kind in simple else self.random.choice(kind.split("|"))


def request(fuzzer: Fuzzer) -> tuple[str, str, bytes]:
    method, path = fuzzer.random.choice(("GET", "POST", "POST", "PUT", "DELETE", "PATCH")), fuzzer.random.choice(PATHS)
    try:
        message = discovery.messages("container", "v1", method, f"v1/{path}")[0]
    except AssertionError:
        message = fuzzer.random.choice(sorted(fuzzer.messages))
    data = orjson.dumps(fuzzer.body(message)) if fuzzer.random.random() > 0.05 else fuzzer.random.randbytes(20)
    return method, path, data


def test_fuzzed_requests_never_cause_internal_errors() -> None:
    async def main(cloud: Cloud) -> None:
        fuzzer, seen = Fuzzer(1), set()
        headers = {"authorization": f"Bearer {cloud.twin.token}"}
        for _ in range(ROUNDS):
            method, path, data = request(fuzzer)
            cloud.container.clusters.adopt("p", "us-central2-b", "c")
            status, _, answer = await cloud.server.handle(method, f"/container/v1/{path}", headers, data)
            result = orjson.loads(answer)
            assert status in {200, 400, 404, 409, 429, 501}, (method, path, data, result)
            if status == 200:
                message = discovery.messages("container", "v1", method, f"v1/{path.partition('?')[0]}")[1]
                problems = discovery.problems("container", "v1", message, result)
                assert not problems, (method, path, data, problems)
            seen.add(status)
            await clock.sleep(fuzzer.random.choice((0, 0, 1, 60)))
        assert {200, 400, 404, 409, 501} <= seen
        # Whatever became of it all, the cloud works.
        await clock.sleep(5000)
        listed = await cloud.do("GET", PLACE + "/clusters")
        assert {cluster["status"] for cluster in listed.get("clusters", ())} <= {"RUNNING", "ERROR"}

    run_on_cloud(main, workloads=False)
