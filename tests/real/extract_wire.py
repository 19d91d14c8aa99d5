"""Writes the field numbers of Kubernetes' protobuf messages, as Go's struct tags give them, for the components of the schema pack.

go run -C tests/real/gotypes ./wire | python -m tests.real.extract_wire
"""

from __future__ import annotations

import sys
from typing import Any

import orjson
from tests.real.extract_schemas import PACK

from sliceworks.twin.apiserver.protobuf import WIRE

_RESPONSES = {"io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList"}
"""Kinds that only responses have."""


def kept(wire: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """The messages that a body of a kind in the pack, or a response, can hold."""
    waiting = {
        name for file in PACK.rglob("io.k8s.*.json") for name in orjson.loads(file.read_bytes()) if name in wire
    } | _RESPONSES
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        used = {spec.split(" ")[2] for spec in wire[name].values() if len(spec.split(" ")) > 2}
        waiting |= {name for name in used if name in wire} - seen
    return {name: wire[name] for name in sorted(seen)}


def main() -> None:
    wire: dict[str, Any] = orjson.loads(sys.stdin.buffer.read())
    WIRE.write_bytes(orjson.dumps(kept(wire), option=orjson.OPT_SORT_KEYS) + b"\n")


if __name__ == "__main__":
    main()
