"""Pub/Sub.

topic     schemas, topics and subscriptions
delivery  published messages: schema validation, pull, acknowledge, BigQuery subscriptions
"""

from sliceworks.twin.cloud.google.pubsub.topic import create

__all__ = ["create"]
