"""The lifecycle of every built-in kind: create with defaults, get, list, watch, patch, update, table, delete."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.support import goldens
from tests.support.http import MERGE_PATCH, PARTIAL, TABLE
from tests.support.objects import KINDS, Kind
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

AGE = re.compile(r"(\d+[smhdy])+")
every_kind = pytest.mark.parametrize("kind", [pytest.param(k, id=k.id) for k in KINDS])


@every_kind
def test_created_object_has_its_defaults(cluster: Cluster, api: Api, ns: str, kind: Kind, unique_name: str) -> None:
    created = api.post(kind.collection(ns), kind.object(unique_name, ns)).ok(201)
    words = {ns: "NS", unique_name: "NAME"}
    goldens.check("test_kinds_defaults", kind.id, created.json, real=cluster.name == "real", words=words)
    assert api.get(f"{kind.collection(ns)}/{unique_name}").ok(200).json == created.json


@every_kind
def test_table_has_kubectl_columns(cluster: Cluster, api: Api, ns: str, kind: Kind, unique_name: str) -> None:
    path = f"{kind.collection(ns)}/{unique_name}"
    api.post(kind.collection(ns), kind.object(unique_name, ns)).ok(201)
    table = api.get(path, accept=TABLE, query={"includeObject": "None"}).ok(200).json
    columns = [{key: column[key] for key in ("name", "type", "format", "priority")} for column in table["columnDefinitions"]]
    cells = [["AGE" if isinstance(cell, str) and AGE.fullmatch(cell) else cell for cell in row["cells"]] for row in table["rows"]]
    seen = {"kind": table["kind"], "apiVersion": table["apiVersion"], "columns": columns, "cells": cells}
    goldens.check("test_kinds_tables", kind.id, seen, real=cluster.name == "real", words={ns: "NS", unique_name: "NAME"})


@every_kind
def test_object_lifecycle(api: Api, ns: str, kind: Kind, unique_name: str) -> None:
    collection, path = kind.collection(ns), f"{kind.collection(ns)}/{unique_name}"
    mine = {"fieldSelector": f"metadata.name={unique_name}"}
    api.get(path).refused(404, "NotFound")
    with api.watch(collection, {**mine, "resourceVersion": api.get(collection, mine).version}) as watch:
        created = api.post(collection, kind.object(unique_name, ns)).ok(201)
        patched = api.patch(path, {"metadata": {"labels": {"colour": "blue"}}}, MERGE_PATCH).ok(200).json
        assert patched["metadata"]["labels"]["colour"] == "blue"
        assert int(patched["metadata"]["resourceVersion"]) > int(created.version)
        listed = api.get(collection, {"labelSelector": "colour=blue", **mine}).ok(200)
        assert listed.names == [unique_name]
        assert listed.json["kind"] == f"{kind.kind}List"
        current = api.get(path).json
        current["metadata"].setdefault("annotations", {})["note"] = "x"
        updated = api.put(path, current).ok(200).json
        assert updated["metadata"]["annotations"]["note"] == "x"
        assert api.get(path, accept=PARTIAL).ok().json["kind"] == "PartialObjectMetadata"
        assert api.delete(path).status in (200, 202)
        if kind.plural == "namespaces":
            eventually(lambda: api.get(path).status == 404, what="namespace deleted")
        api.patch(path, {"metadata": {"finalizers": None}})
        seen = [event["type"] for event in watch.until("DELETED")]
    assert seen[:3] == ["ADDED", "MODIFIED", "MODIFIED"]
    api.get(path).refused(404, "NotFound")
