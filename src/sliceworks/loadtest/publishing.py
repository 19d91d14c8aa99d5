"""Records of a run through Pub/Sub into BigQuery: every request, none lost at the end, counted on both ends.

A batch is sent again until its answer says that all of it was taken, or until that has failed too often; how far it came is written
down after each batch, so that a second try goes on there. A batch whose answer was lost may arrive twice: the table then has more
rows than the run, never fewer.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import orjson

from sliceworks.base import clock, files
from sliceworks.base.errors import CloudError, CloudUnavailable, SliceworksError, Unreachable
from sliceworks.cloud.retrying import Retry
from sliceworks.loadtest.merging import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sliceworks.cloud.session import Session

BATCH = 500
PROGRESS = "published.json"
Object = dict[str, Any]
_RETRY = Retry(attempts=8, first=0.5, cap=20.0)
_COLUMNS = "number, turn, intended, sent, ended, bytes_in, tokens_in, tokens_out, status, failure"


@dataclass(frozen=True, slots=True)
class Place:
    """A topic, and the table that its subscription writes into."""

    project: str
    topic: str
    dataset: str
    table: str


def records(folder: Path, run: Object, first: int = 0) -> Iterator[Object]:
    """The record of each request, in order, from one of them on. Prompts and answers are not in it: nobody kept them."""
    spec = run["spec"]
    with duckdb.connect() as connection:
        answer = connection.execute(f"SELECT {_COLUMNS} FROM read_parquet($1) OFFSET $2", [str(folder / REQUESTS), first])
        while rows := answer.fetchmany(BATCH):
            for row in rows:
                yield _record(folder.name, run, spec, row)


def _record(test: str, run: Object, spec: Object, row: tuple[Any, ...]) -> Object:
    number, turn, intended, sent, ended, size, tokens_in, tokens_out, status, failure = row
    took = (ended - intended) * 1000 if ended is not None else 0.0
    wrong = f"status {status}" if failure == "status" else failure
    found = {
        "test_id": test,
        "request_type": spec.get("api", "openai-chat"),
        "request_name": f"{number}-{turn}" if turn else str(number),
        "response_length": size,
        "response_time": took,
        "start_time": datetime.fromtimestamp(run["began"] + intended, UTC).isoformat(timespec="microseconds"),
        "exception": wrong,
        "model_name": spec.get("model", ""),
        "model_method": spec.get("api", "openai-chat"),
        "num_input_tokens": tokens_in,
        "num_output_tokens": tokens_out,
        "model_response_time": (ended - sent) * 1000 if ended is not None and sent is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Publisher:
    """Sends a run's records; `prefix` comes before Pub/Sub's paths where several services share an address."""

    session: Session
    place: Place
    folder: Path
    prefix: str = ""

    async def publish(self, run: Object, told: Callable[[int], None]) -> int:
        """Send all records that were not sent yet; how many have been sent, of the whole run."""
        done = _done(self.folder, self.place)
        batch: list[Object] = []
        for record in records(self.folder, run, done):
            batch.append({"data": base64.b64encode(orjson.dumps(record)).decode()})
            if len(batch) == BATCH:
                done = await self._batch(batch, done)
                told(done)
                batch = []
        if batch:
            done = await self._batch(batch, done)
            told(done)
        return done

    async def _batch(self, batch: list[Object], done: int) -> int:
        answer = await self._sent(batch)
        taken = len(answer.get("messageIds") or ())
        if taken != len(batch):
            remedy = "publish again: it goes on after the last whole batch"
            raise SliceworksError(f"Pub/Sub took {taken} of {len(batch)} records", hint=remedy)
        _note(self.folder, self.place, done + taken)
        return done + taken

    async def _sent(self, batch: list[Object]) -> Object:
        """Once it was taken: what cannot be reached, is busy or has too much to do is asked again, a few times."""
        path = f"{self.prefix}/v1/projects/{self.place.project}/topics/{self.place.topic}:publish"
        failures = 0
        while True:
            try:
                return await self.session.call("POST", path, {"messages": batch})
            except (Unreachable, CloudError) as error:
                failures += 1
                passing = isinstance(error, Unreachable | CloudUnavailable) or getattr(error, "code", 0) == 429
                if not passing or failures >= _RETRY.attempts:
                    raise
                await clock.sleep(_RETRY.delay(failures, getattr(error, "retry_after", None)))


def _note(folder: Path, place: Place, done: int) -> None:
    """Remember how far it came."""
    files.put(folder / PROGRESS, orjson.dumps({"project": place.project, "topic": place.topic, "records": done}))


def _done(folder: Path, place: Place) -> int:
    """How many were sent there before."""
    try:
        found = orjson.loads((folder / PROGRESS).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return 0
    same = isinstance(found, dict) and (found.get("project"), found.get("topic")) == (place.project, place.topic)
    return int(found["records"]) if same else 0


async def counted(session: Session, place: Place, folder: Path) -> int:
    """How many records of a run the table has."""
    query = f"SELECT COUNT(*) AS n FROM `{place.project}.{place.dataset}.{place.table}` WHERE test_id = @test"
    parameter = {"name": "test", "parameterType": {"type": "STRING"}, "parameterValue": {"value": folder.name}}
    body = {"query": query, "useLegacySql": False, "parameterMode": "NAMED", "queryParameters": [parameter]}
    answer = await session.call("POST", f"/bigquery/v2/projects/{place.project}/queries", body)
    try:
        return int(answer["rows"][0]["f"][0]["v"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise SliceworksError("BigQuery did not answer with a count", hint="look at the table yourself") from error
