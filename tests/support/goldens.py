"""Expected responses in files, recorded from the real kube-apiserver.

A golden file is one JSON document per test module: case → response, with everything that differs between runs (namespaces, uids,
times, versions) replaced by a placeholder. `SLICEWORKS_RECORD=1` on the real cluster rewrites the file and fails the run once, so
that a person reviews the diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import orjson
from tests.real.programs import OTHER_VERSIONS

RECORDED: list[str] = []
FOLDER = Path(__file__).parent.parent / "contract" / "goldens"
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_SUFFIX = re.compile(r"kube-api-access-[a-z0-9]{5}")
_ADDRESS = re.compile(r"10\.96\.\d+\.\d+")
# Before 1.34, kube-apiserver prints `creationTimestamp: null` in templates.
_IS_OTHER_APISERVER = "kube-apiserver" in OTHER_VERSIONS


def check(module: str, case: str, seen: Any, *, real: bool, words: dict[str, str] | None = None) -> None:
    """Compare a normalised response with the recorded one."""
    value = normalised(seen, words or {})
    path = FOLDER / f"{module}.json"
    recorded: dict[str, Any] = orjson.loads(path.read_bytes()) if path.exists() else {}
    if real and os.environ.get("SLICEWORKS_RECORD") == "1" and recorded.get(case) != value:
        recorded[case] = value
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(orjson.dumps(recorded, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
        RECORDED.append(case)
        return
    assert case in recorded, f"nothing is recorded for {case} in {path.name}"
    assert value == recorded[case]


def recorded(module: str, case: str) -> Any:
    """The recorded response of a case."""
    return whole(module)[case]


def whole(module: str) -> dict[str, Any]:
    """The recorded responses of all cases of a module."""
    result: dict[str, Any] = orjson.loads((FOLDER / f"{module}.json").read_bytes())
    return result


def normalised(value: Any, words: dict[str, str]) -> Any:
    """Replace what differs between runs; `words` maps strings of this run to placeholders."""
    if isinstance(value, dict):
        return {
            normalised(key, words): "RV" if key == "resourceVersion" else normalised(item, words)
            for key, item in value.items()
            if not _IS_OTHER_APISERVER or (key, item) != ("creationTimestamp", None)
        }
    if isinstance(value, list | tuple):
        return [normalised(item, words) for item in value]
    if not isinstance(value, str):
        return value
    for text, word in words.items():
        value = value.replace(text, word)
    value = _SUFFIX.sub("kube-api-access-SUFFIX", value)
    return _ADDRESS.sub("ADDRESS", _TIME.sub("TIME", _UID.sub("UID", value)))
