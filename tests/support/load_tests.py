"""LoadTest documents, and raw rows without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.loadtest import request_table
from sliceworks.loadtest.request_log import Failure, RecordWriter, RequestRecord
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SECOND = 1_000_000_000


def spec(**fields: Any) -> LoadTestSpec:
    """The spec of a LoadTest: an echo model, ten requests per second for one second."""
    given: dict[str, Any] = {
        "target": {"url": "http://127.0.0.1:1"},
        "model": "echo",
        "prompts": {"texts": ["Hello"]},
        "stages": [{"constant": 10, "for": "1s"}],
    }
    return LoadTestSpec.model_validate({**given, **fields})


def record(
    number: int, intended: float, *, sent: float = 0.0, first: float = 0.1, ends: float = 0.2, **fields: Any
) -> RequestRecord:
    """A request in seconds: its delay against the schedule, and its first token and its end relative to the send time."""
    left = round((intended + sent) * SECOND)
    result = RequestRecord(number, round(intended * SECOND), 0, sent=left, status=200)
    result.first_byte = result.first_token = left + round(first * SECOND)
    result.ended = left + round(ends * SECOND)
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def failed(number: int, intended: float, failure: Failure, status: int = 0) -> RequestRecord:
    """A request that failed a tenth of a second after it was sent."""
    left = round(intended * SECOND)
    return RequestRecord(number, left, 0, sent=left, ended=left + SECOND // 10, failure=failure, status=status)


def written(folder: Path, records: Iterable[RequestRecord], worker: int = 0) -> Path:
    """Write the tables of these requests."""
    with RecordWriter(folder, f"worker-{worker}", worker) as writer:
        for record in records:
            writer.add(record)
    request_table.merge_records(folder)
    return folder
