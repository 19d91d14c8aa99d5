"""Exports the requests of a run through Pub/Sub to BigQuery, and counts the rows that arrived.

A batch is retried until Pub/Sub accepts all of it or the retries are exhausted. Progress is saved after each batch, so a second
export continues there. A batch whose response was lost may arrive twice: the table can have more rows than the run, never fewer.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import orjson

from sliceworks.base import clock, files
from sliceworks.base.errors import CloudError, CloudNotFound, CloudUnavailable, SliceworksError, Unreachable
from sliceworks.base.retry import Backoff, Retry
from sliceworks.loadtest.request_table import REQUESTS_FILE, quote_sql
from sliceworks.loadtest.request_texts import TEXTS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sliceworks.cloud.session import Session

BATCH_SIZE = 500
_BATCH_BYTES = 4_000_000
"""Size at which a batch is sent: Pub/Sub accepts 10 MB per request."""
PROGRESS = "published.json"
Object = dict[str, Any]
_RETRY = Retry(attempts=8, backoff=Backoff(first=0.5, cap=20.0, jitter=0.5))
_COLUMNS = "number, turn, intended, sent, ended, bytes_in, tokens_in, tokens_out, status, failure"


@dataclass(frozen=True, slots=True)
class PubSubSink:
    """A topic and the table of its BigQuery subscription."""

    project: str
    topic: str
    dataset: str
    table: str


def records(folder: Path, run: Object, first: int = 0) -> Iterator[Object]:
    """The records of a run from an offset on, in order; with prompts and responses only if the run kept them."""
    spec, texts = run["spec"], folder / TEXTS_FILE
    query = f"SELECT {_COLUMNS}, NULL, NULL FROM read_parquet($1) OFFSET $2"
    if texts.exists():
        query = f"""
            SELECT {_COLUMNS}, texts.request, texts.response FROM read_parquet($1, file_row_number = true) AS requests
            LEFT JOIN read_parquet({quote_sql(texts)}) AS texts USING (number, turn) ORDER BY requests.file_row_number OFFSET $2"""
    with duckdb.connect() as connection:
        result = connection.execute(query, [str(folder / REQUESTS_FILE), first])
        while rows := result.fetchmany(BATCH_SIZE):
            for row in rows:
                yield _record(folder.name, run, spec, row)


def _record(test: str, run: Object, spec: Object, row: tuple[Any, ...]) -> Object:
    number, turn, intended, sent, ended, size, tokens_in, tokens_out, status, failure, request, response = row
    milliseconds = (ended - intended) * 1000 if ended is not None else 0.0
    exception = f"status {status}" if failure == "status" else failure
    record = {
        "test_id": test,
        "request_type": spec.get("api", "openai-chat"),
        "request_name": f"{number}-{turn}" if turn else str(number),
        "response_length": size,
        "response_time": milliseconds,
        "start_time": datetime.fromtimestamp(run["started"] + intended, UTC).isoformat(timespec="microseconds"),
        "exception": exception,
        "request": request,
        "response": response,
        "model_name": spec.get("model", ""),
        "model_method": spec.get("api", "openai-chat"),
        "num_input_tokens": tokens_in,
        "num_output_tokens": tokens_out,
        "model_response_time": (ended - sent) * 1000 if ended is not None and sent is not None else None,
    }
    return {name: value for name, value in record.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Publisher:
    """Sends a run's records; `prefix` comes before Pub/Sub's paths where several services share an address."""

    session: Session
    sink: PubSubSink
    folder: Path
    prefix: str = ""

    async def publish(self, run: Object, on_progress: Callable[[int], None]) -> int:
        """Publish all records that are still missing; return the number of published records of the run."""
        published = _load_progress(self.folder, self.sink)
        batch: list[Object] = []
        size = 0
        for record in records(self.folder, run, published):
            data = base64.b64encode(orjson.dumps(record)).decode()
            batch.append({"data": data})
            size += len(data)
            if len(batch) == BATCH_SIZE or size > _BATCH_BYTES:
                published = await self._publish_batch(batch, published)
                on_progress(published)
                batch, size = [], 0
        if batch:
            published = await self._publish_batch(batch, published)
            on_progress(published)
        return published

    async def _publish_batch(self, batch: list[Object], published: int) -> int:
        response = await self._send(batch)
        accepted = len(response.get("messageIds") or ())
        if accepted != len(batch):
            remedy = "run the command again: it resumes after the last complete batch"
            raise SliceworksError(f"Pub/Sub accepted {accepted} of {len(batch)} records", hint=remedy)
        _save_progress(self.folder, self.sink, published + accepted)
        return published + accepted

    async def _send(self, batch: list[Object]) -> Object:
        """Publish one batch, with a few retries while Pub/Sub is unreachable or overloaded."""
        path = f"{self.prefix}/v1/projects/{self.sink.project}/topics/{self.sink.topic}:publish"
        failures = 0
        while True:
            try:
                return await self.session.call("POST", path, {"messages": batch})
            except (Unreachable, CloudError) as error:
                failures += 1
                retryable = isinstance(error, Unreachable | CloudUnavailable) or getattr(error, "code", 0) == 429
                if not retryable or failures >= _RETRY.attempts:
                    raise
                await clock.sleep(_RETRY.delay(failures, getattr(error, "retry_after", None)))


def _save_progress(folder: Path, sink: PubSubSink, published: int) -> None:
    """Save the offset of the next record."""
    files.write_atomic(folder / PROGRESS, orjson.dumps({"project": sink.project, "topic": sink.topic, "records": published}))


def _load_progress(folder: Path, sink: PubSubSink) -> int:
    """The offset saved by an earlier run."""
    try:
        saved = orjson.loads((folder / PROGRESS).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return 0
    same = isinstance(saved, dict) and (saved.get("project"), saved.get("topic")) == (sink.project, sink.topic)
    return int(saved["records"]) if same else 0


async def count_rows(session: Session, sink: PubSubSink, folder: Path) -> int:
    """The number of rows of a run in the table."""
    query = f"SELECT COUNT(*) AS n FROM `{sink.project}.{sink.dataset}.{sink.table}` WHERE test_id = @test"
    parameter = {"name": "test", "parameterType": {"type": "STRING"}, "parameterValue": {"value": folder.name}}
    body = {"query": query, "useLegacySql": False, "parameterMode": "NAMED", "queryParameters": [parameter]}
    try:
        response = await session.call("POST", f"/bigquery/v2/projects/{sink.project}/queries", body)
    except CloudNotFound as error:
        hint = "`env apply` creates the table of an environment with loadMetrics; --dataset and --table name another"
        raise SliceworksError(error.message, hint=hint) from error
    try:
        return int(response["rows"][0]["f"][0]["v"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise SliceworksError("BigQuery returned no count", hint="check the table") from error
