"""Load tests as documents, and raw rows without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.loadtest import merging
from sliceworks.loadtest.rows import Failure, Record, Writer
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SECOND = 1_000_000_000


def spec(**fields: Any) -> LoadTestSpec:
    """The inside of a document: an echo model, ten requests a second for a second."""
    given: dict[str, Any] = {
        "target": {"url": "http://127.0.0.1:1"},
        "model": "echo",
        "prompts": {"texts": ["Hello"]},
        "stages": [{"constant": 10, "for": "1s"}],
    }
    return LoadTestSpec.model_validate({**given, **fields})


def record(number: int, intended: float, *, sent: float = 0.0, first: float = 0.1, ends: float = 0.2, **fields: Any) -> Record:
    """A request in seconds: sent so long after it was to be, its first token and its end so long after it was sent."""
    left = round((intended + sent) * SECOND)
    found = Record(number, round(intended * SECOND), 0, sent=left, status=200)
    found.first_byte = found.first_token = left + round(first * SECOND)
    found.ended = left + round(ends * SECOND)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def failed(number: int, intended: float, failure: Failure, status: int = 0) -> Record:
    """A request that was sent and failed a tenth of a second later."""
    left = round(intended * SECOND)
    return Record(number, left, 0, sent=left, ended=left + SECOND // 10, failure=failure, status=status)


def written(folder: Path, records: Iterable[Record], worker: int = 0) -> Path:
    """The tables of these requests."""
    with Writer(folder, f"worker-{worker}", worker) as writer:
        for each in records:
            writer.add(each)
    merging.merge(folder)
    return folder
