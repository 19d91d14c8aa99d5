"""The topic, the subscription and the table of load tests, created with Google's clients as our Terraform module creates them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from google.cloud import bigquery
from google.pubsub_v1.types import BigQueryConfig, Encoding, Schema, SchemaSettings, Subscription, Topic
from tests.support.google_clients import PROJECT

from sliceworks.base.names import project_number

if TYPE_CHECKING:
    from tests.support.google_clients import Google

MODULE = Path(__file__).parents[2] / "terraform" / "modules" / "load-metrics"
METADATA = {"subscription_name": "STRING", "message_id": "STRING", "publish_time": "TIMESTAMP", "attributes": "JSON"}


def table(google: Google, dataset: str, *, metadata: bool = True) -> None:
    """Create the table of load tests."""
    agent = f"service-{project_number(PROJECT)}@gcp-sa-pubsub.iam.gserviceaccount.com"
    created = google.bigquery.create_dataset(dataset)
    created.access_entries = [bigquery.AccessEntry("WRITER", "userByEmail", agent)]
    google.bigquery.update_dataset(created, ["access_entries"])
    columns = orjson.loads((MODULE / "columns.json").read_bytes())
    fields = [bigquery.SchemaField(column["name"], column["type"], mode=column["mode"]) for column in columns]
    fields += [bigquery.SchemaField(name, kind) for name, kind in METADATA.items() if metadata]
    google.bigquery.create_table(bigquery.Table(f"{PROJECT}.{dataset}.records", schema=fields))


def stream(google: Google, name: str, dataset: str, **config: Any) -> str:
    """Create a topic with the schema of load tests, whose messages are exported to the table."""
    schema = Schema(type_=Schema.Type.PROTOCOL_BUFFER, definition=(MODULE / "record.proto").read_text())
    created = google.schemas.create_schema(parent=f"projects/{PROJECT}", schema=schema, schema_id=f"{name}-schema")
    topic = str(google.publisher.topic_path(PROJECT, name))
    settings = SchemaSettings(schema=created.name, encoding=Encoding.JSON)
    google.publisher.create_topic(Topic(name=topic, schema_settings=settings))
    target = BigQueryConfig(table=f"{PROJECT}.{dataset}.records", use_topic_schema=True, write_metadata=True, **config)
    path = google.subscriber.subscription_path(PROJECT, f"{name}-to-bigquery")
    google.subscriber.create_subscription(Subscription(name=path, topic=topic, bigquery_config=target))
    return topic


def count(google: Google, sql: str, **parameters: str) -> list[tuple[Any, ...]]:
    given = [bigquery.ScalarQueryParameter(name, "STRING", value) for name, value in parameters.items()]
    return [tuple(row) for row in google.bigquery.query_and_wait(sql, job_config=bigquery.QueryJobConfig(query_parameters=given))]
