"""Every built-in kind through the official Python client, whose types reject a response with a missing or wrong field."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import kubernetes
import pytest
from kubernetes.client.exceptions import NotFoundException
from tests.support.objects import KINDS, Kind
from tests.support.polling import eventually

client: Any = kubernetes.client


class Typed:
    """The client's functions for one kind."""

    def __init__(self, official: Any, kind: Kind, ns: str) -> None:
        group, _, version = kind.group_version.rpartition("/")
        words = (group.removesuffix(".k8s.io") or "core").replace(".", " ").title().replace(" ", "")
        self._api = getattr(client, f"{words}{version.title()}Api")(official)
        self._name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind.kind).lower()
        self._scope = "namespaced_" if kind.namespaced else ""
        self._where = (ns,) if kind.namespaced else ()

    def create(self, body: Any) -> Any:
        return self._call("create", body=body)

    def read(self, name: str) -> Any:
        return self._call("read", name)

    def patch(self, name: str, body: Any) -> Any:
        return self._call("patch", name, body=body)

    def replace(self, name: str, body: Any) -> Any:
        return self._call("replace", name, body=body)

    def delete(self, name: str) -> Any:
        return self._call("delete", name)

    def names(self) -> list[str]:
        return [item.metadata.name for item in self._call("list").items]

    def _call(self, verb: str, *arguments: str, **options: Any) -> Any:
        return getattr(self._api, f"{verb}_{self._scope}{self._name}")(*arguments, *self._where, **options)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.id) for kind in KINDS])
def test_typed_lifecycle(official: Any, ns: str, kind: Kind, unique_name: str) -> None:
    typed = Typed(official, kind, ns)
    created = typed.create(kind.object(unique_name, ns))
    assert created.metadata.name == unique_name
    assert typed.read(unique_name).metadata.uid == created.metadata.uid
    assert unique_name in typed.names()
    if kind.kind != "ControllerRevision":
        # The real server compares its data byte by byte, and Python writes a space where Go does not.
        patched = typed.patch(unique_name, {"metadata": {"labels": {"colour": "blue"}}})
        assert patched.metadata.labels["colour"] == "blue"
        patched.metadata.annotations = {"note": "x"}
        assert typed.replace(unique_name, patched).metadata.annotations["note"] == "x"
    typed.delete(unique_name)
    if kind.plural in {"persistentvolumes", "persistentvolumeclaims"}:
        # No pod uses it, so its protection controller removes the finalizer; on the real cluster that controller does not run.
        with suppress(NotFoundException):
            typed.patch(unique_name, {"metadata": {"finalizers": None}})
    eventually(lambda: unique_name not in typed.names(), what=f"{kind.id} is deleted")
