"""google-cloud-pubsub and google-cloud-bigquery: publish, write to a table, query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from google.api_core.exceptions import BadRequest, Conflict, FailedPrecondition, NotFound, PreconditionFailed
from google.protobuf import field_mask_pb2
from google.pubsub_v1.types import BigQueryConfig, Subscription
from tests.support.google_clients import PROJECT
from tests.support.load_metrics import count, stream, table

if TYPE_CHECKING:
    from tests.support.google_clients import Google


def record(number: int, test: str = "first") -> bytes:
    return orjson.dumps(
        {"test_id": test, "response_time": number / 10, "num_output_tokens": number, "start_time": "2026-08-01T10:00:00.5Z"}
    )


def test_published_messages_are_written_to_the_table(google: Google) -> None:
    table(google, "load")
    topic = stream(google, "records", "load", drop_unknown_fields=True)
    sent = [google.publisher.publish(topic, record(number), origin="worker-1") for number in range(25)]
    sent.append(google.publisher.publish(topic, record(99, "second")))
    assert len({future.result(timeout=90) for future in sent}) == 26
    assert google.bigquery.get_table("load.records").num_rows == 26
    rows = list(google.bigquery.list_rows("load.records", page_size=10))
    assert len(rows) == 26
    assert rows[0]["start_time"].isoformat() == "2026-08-01T10:00:00.500000+00:00"
    assert rows[0]["attributes"] == {"origin": "worker-1"}
    assert rows[0]["request"] is None
    sql = "SELECT COUNT(*) AS n, AVG(response_time), MAX(num_output_tokens) FROM `my-project.load.records` WHERE test_id = @test"
    assert count(google, sql, test="first") == [(25, pytest.approx(1.2), 24)]
    by_test = "SELECT test_id, COUNT(*) AS n FROM load.records GROUP BY test_id ORDER BY n DESC"
    assert count(google, by_test) == [("first", 25), ("second", 1)]


@pytest.mark.parametrize("data", [b"no json", b'{"test_id": 5}', b'{"colour": "red"}'])
def test_message_must_match_the_schema(google: Google, data: bytes) -> None:
    name = f"strict-{len(data)}"
    topic = stream(google, name, name.replace("-", "_"))
    with pytest.raises(BadRequest, match="failed schema validation"):
        google.publisher.publish(topic, data).result(timeout=90)


def test_rows_wait_for_a_missing_table(google: Google) -> None:
    topic = stream(google, "early", "later")
    google.publisher.publish(topic, record(1)).result(timeout=90)
    path = google.subscriber.subscription_path(PROJECT, "early-to-bigquery")
    state = google.subscriber.get_subscription(subscription=path).bigquery_config.state
    assert state == BigQueryConfig.State.NOT_FOUND
    table(google, "later", metadata=False)
    google.publisher.publish(topic, record(2)).result(timeout=90)
    assert google.subscriber.get_subscription(subscription=path).bigquery_config.state == BigQueryConfig.State.SCHEMA_MISMATCH
    mask = field_mask_pb2.FieldMask(paths=["bigquery_config"])
    config = BigQueryConfig(table=f"{PROJECT}.later.records", use_topic_schema=True)
    google.subscriber.update_subscription(
        subscription=Subscription(name=path, topic=topic, bigquery_config=config), update_mask=mask
    )
    google.publisher.publish(topic, record(3)).result(timeout=90)
    assert google.bigquery.get_table("later.records").num_rows == 3


def test_messages_are_pulled_acknowledged_and_released(google: Google) -> None:
    topic = google.publisher.topic_path(PROJECT, "plain")
    google.publisher.create_topic(name=topic)
    path = google.subscriber.subscription_path(PROJECT, "reader")
    google.subscriber.create_subscription(name=path, topic=topic, ack_deadline_seconds=600)
    for number in range(3):
        google.publisher.publish(topic, f"m{number}".encode()).result(timeout=90)
    first = google.subscriber.pull(subscription=path, max_messages=2).received_messages
    assert [item.message.data for item in first] == [b"m0", b"m1"]
    assert [item.message.data for item in google.subscriber.pull(subscription=path, max_messages=5).received_messages] == [b"m2"]
    google.subscriber.acknowledge(subscription=path, ack_ids=[first[0].ack_id])
    google.subscriber.modify_ack_deadline(subscription=path, ack_ids=[first[1].ack_id], ack_deadline_seconds=0)
    again = google.subscriber.pull(subscription=path, max_messages=5).received_messages
    assert [item.message.data for item in again] == [b"m1"]
    assert list(google.publisher.list_topic_subscriptions(topic=topic)) == [path]


def test_subscriptions_outlive_their_topic(google: Google) -> None:
    topic = google.publisher.topic_path(PROJECT, "short")
    google.publisher.create_topic(name=topic)
    with pytest.raises(Conflict):
        google.publisher.create_topic(name=topic)
    path = google.subscriber.subscription_path(PROJECT, "long")
    google.subscriber.create_subscription(name=path, topic=topic)
    google.publisher.delete_topic(topic=topic)
    assert google.subscriber.get_subscription(subscription=path).topic == "_deleted-topic_"
    with pytest.raises(NotFound):
        google.publisher.publish(topic, b"x").result(timeout=90)


def test_bigquery_subscription_cannot_be_pulled(google: Google) -> None:
    stream(google, "pulled", "pulled")
    path = google.subscriber.subscription_path(PROJECT, "pulled-to-bigquery")
    with pytest.raises((FailedPrecondition, BadRequest), match="not supported for this subscription type"):
        google.subscriber.pull(subscription=path, max_messages=1)


def test_dataset_and_table_lifecycle(google: Google) -> None:
    created = google.bigquery.create_dataset("life")
    with pytest.raises(Conflict):
        google.bigquery.create_dataset("life")
    table(google, "life2")
    assert [item.dataset_id for item in google.bigquery.list_datasets() if item.dataset_id.startswith("life")] == ["life", "life2"]
    stale = google.bigquery.get_dataset("life")
    created.description = "new"
    google.bigquery.update_dataset(created, ["description"])
    stale.description = "newer"
    with pytest.raises(PreconditionFailed):
        google.bigquery.update_dataset(stale, ["description"])
    with pytest.raises(BadRequest, match="still in use"):
        google.bigquery.delete_dataset("life2")
    google.bigquery.delete_dataset("life2", delete_contents=True)
    with pytest.raises(NotFound):
        google.bigquery.get_table("life2.records")


def test_insert_reports_invalid_rows(google: Google) -> None:
    table(google, "rows")
    good = {"test_id": "a", "num_input_tokens": 5}
    assert google.bigquery.insert_rows_json("rows.records", [good, good], row_ids=["same", "same"]) == []
    assert google.bigquery.get_table("rows.records").num_rows == 1
    reported = google.bigquery.insert_rows_json("rows.records", [{"num_input_tokens": "many"}, {**good, "colour": 1}, good])
    assert {item["index"]: item["errors"][0]["reason"] for item in reported} == {0: "invalid", 1: "invalid", 2: "stopped"}
    assert "no such field: colour." in reported[1]["errors"][0]["message"]
    google.bigquery.insert_rows_json("rows.records", [{"num_input_tokens": "many"}, good], skip_invalid_rows=True)
    assert google.bigquery.get_table("rows.records").num_rows == 2


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT a.test_id FROM load.records a JOIN load.records b ON a.x = b.x", "the twin supports SELECT of columns"),
        ("SELECT test_id FROM load.records WHERE test_id LIKE 'a%'", "Unexpected 'LIKE'"),
        ("SELECT colour FROM load.records", "Unrecognized name: colour"),
        ("SELECT test_id, COUNT(*) FROM load.records", "neither grouped nor aggregated"),
        ("SELECT UPPER(test_id) FROM load.records", "Function not found: UPPER"),
        ("DELETE FROM load.records WHERE true", "Expected SELECT"),
    ],
)
def test_unsupported_sql_is_rejected(google: Google, sql: str, says: str) -> None:
    dataset = "".join(filter(str.isalpha, sql))[:40].lower()
    table(google, dataset)
    with pytest.raises(BadRequest, match="the twin supports") as caught:
        google.bigquery.query_and_wait(sql.replace("load.records", f"{dataset}.records"))
    assert says in str(caught.value)
