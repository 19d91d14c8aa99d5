"""Mutating webhooks for custom resources: what is validated, defaulted and pruned after their patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.custom_resources import define, simple
from tests.support.webhooks import installed, patch, serve, webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api
    from tests.support.webhooks import WebhookServer

Object = dict[str, Any]
FIELDS: dict[str, Object] = {
    "typed": {"type": "string"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    "without type": {"x-kubernetes-preserve-unknown-fields": True},
    "nullable": {"type": "string", "nullable": True},
    "with default": {"type": "integer", "default": 7},
    "list": {"type": "array", "items": {"type": "string"}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    with serve(tmp_path_factory.mktemp("webhooks")) as running:
        yield running


@pytest.mark.parametrize("field", FIELDS)
def test_nulls_and_unknown_fields_of_a_patch(
    api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, unique_name: str, field: str
) -> None:
    widgets = define(api, simple(spec={"type": "object", "properties": {"a": FIELDS[field]}}))
    server.paths["null"] = patch({"op": "add", "path": "/spec", "value": {"a": None, "unknown": {"b": 1}}})
    rule = {"apiGroups": [widgets.group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}
    with installed(api, server, "Mutating", ns, webhook("null", server.client("null"), ns, rule)):
        created = api.post(widgets.at(ns), widgets.object(unique_name, {}))
    seen = created.json["spec"] if created.status == 201 else created.refusal
    words = {widgets.group: "GROUP", unique_name: "NAME"}
    goldens.check("test_custom_resource_webhooks", field, seen, real=cluster.name == "real", words=words)
    if created.status == 201:
        assert api.get(f"{widgets.at(ns)}/{unique_name}").ok().json["spec"] == created.json["spec"]
