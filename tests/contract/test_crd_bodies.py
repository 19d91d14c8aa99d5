"""Bodies of custom resources with a missing or wrong apiVersion or kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import goldens
from tests.support.custom_resources import define, simple
from tests.support.http import JSON, YAML

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

BODIES = {
    "no kind": ('{"metadata": {"name": "a"}}', JSON),
    "no kind in YAML": ("metadata:\n  name: a\n", YAML),
    "no kind but a version": ('{"metadata":{"name":"a"},"apiVersion":"GROUP/v1"}', JSON),
    "no kind but another version": ('{"apiVersion":"x/v1","metadata":{"name":"a"}}', JSON),
    "no version": ('{"kind":"Widget","metadata":{"name":"a"}}', JSON),
    "another kind without version": ('{"kind":"Gadget","metadata":{"name":"a"}}', JSON),
    "another kind": ('{"kind":"Gadget","apiVersion":"GROUP/v1","metadata":{"name":"a"}}', JSON),
    "another group": ('{"kind":"Widget","apiVersion":"x/v1","metadata":{"name":"a"}}', JSON),
    "kind is a number": ('{"kind":1,"apiVersion":"x/v1"}', JSON),
    "version is a list": ('{"kind":"Widget","apiVersion":[]}', JSON),
    "a list": ("[]", JSON),
    "null": ("null", JSON),
    "nothing": ("", JSON),
    "text": ("x", "text/plain"),
}


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_body_with_wrong_type_is_rejected(cluster: Cluster, api: Api, ns: str, method: str) -> None:
    widgets = define(api, simple("widgets"))
    version = api.post(widgets.at(ns), widgets.object("a")).ok(201).version
    path = widgets.at(ns) if method == "POST" else f"{widgets.at(ns)}/a"
    seen = {}
    for case, (body, kind) in BODIES.items():
        if case == "another kind" and method == "PUT":
            # The version is checked first.
            body = body.replace('"name":"a"', f'"name":"a","resourceVersion":"{version}"')  # noqa: PLW2901
        response = api.request(method, path, body.replace("GROUP", widgets.group).encode(), content_type=kind)
        seen[case] = [response.status, response.reason, response.message]
    goldens.check("test_crd_bodies", method, seen, real=cluster.name == "real", words={widgets.group: "GROUP"})
