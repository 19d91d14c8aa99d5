"""Requests that are wrong in many ways, made from right ones by a seeded generator: the same seed gives the same requests."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from tests.support import fuzzed_definitions
from tests.support.fuzz_words import ACCEPTS, CONTAINERS, KEYS, METHODS, QUERIES, SCALARS, SUBRESOURCES, TYPES
from tests.support.http import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.support.objects import KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Fuzz:
    """One request."""

    method: str
    path: str
    body: bytes | None = None
    query: dict[str, str] = field(default_factory=dict)
    content_type: str | None = JSON
    accept: str | None = JSON
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        body = (self.body or b"")[:300]
        return f"{self.method} {self.path} {self.query} {self.content_type!r} accept={self.accept!r} {self.headers} {body!r}"


class Fuzzer:
    """A source of requests into one namespace; cluster-wide objects are only asked for by name."""

    def __init__(self, seed: int, ns: str) -> None:
        self.random = random.Random(seed)
        self.ns = ns

    def requests(self, count: int) -> Iterator[Fuzz]:
        """That many requests."""
        makers = (
            self._create,
            self._create,
            self._create,
            self._update,
            self._patch,
            self._patch,
            self._read,
            self._delete,
            self._anything,
            self._define,
        )
        for _ in range(count):
            yield self._noise(self.random.choice(makers)())

    def _create(self) -> Fuzz:
        kind = self.random.choice(KINDS)
        return Fuzz("POST", kind.collection(self.ns), self._encode(self.mutate(kind.object(self._name(), self.ns))))

    def _update(self) -> Fuzz:
        kind = self.random.choice(KINDS)
        return Fuzz("PUT", self._object(kind), self._encode(self.mutate(kind.object(self._name(), self.ns))))

    def _patch(self) -> Fuzz:
        kind = self.random.choice(KINDS)
        content_type = self.random.choice((JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH))
        if content_type == JSON_PATCH:
            body: Any = [self._operation() for _ in range(self.random.randint(0, 3))]
            body = self.random.choice((body, body, body, {}, None, [None], [1]))
        else:
            body = self.mutate(kind.object(self._name(), self.ns))
        query = {"fieldManager": "fuzz"} if content_type == APPLY_PATCH else {}
        return Fuzz("PATCH", self._object(kind), self._encode(body), query, content_type)

    def _read(self) -> Fuzz:
        kind = self.random.choice(KINDS)
        return Fuzz("GET", self.random.choice((kind.collection(self.ns), self._object(kind))), query=self._query(3))

    def _delete(self) -> Fuzz:
        kind = self.random.choice(KINDS)
        options = self.mutate(
            {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}, "propagationPolicy": "Background"}
        )
        path = self._object(kind) if not kind.namespaced or self.random.random() < 0.9 else kind.collection(self.ns)
        return Fuzz("DELETE", path, self.random.choice((None, self._encode(options))))

    def _anything(self) -> Fuzz:
        parts = [
            "api",
            "apis",
            "v1",
            "apps",
            "namespaces",
            self.ns,
            "pods",
            "x",
            "..",
            ".",
            "",
            "%00",
            "%2f",
            "é",
            "openapi",
            "v3",
            "watch",
            "healthz",
            "a" * 500,
        ]
        path = "/" + "/".join(quote(self.random.choice(parts), safe="%") for _ in range(self.random.randint(0, 7)))
        return Fuzz(self.random.choice(METHODS[:1] + METHODS[8:]), path, query=self._query(2))

    def _define(self) -> Fuzz:
        body = fuzzed_definitions.definition(self.random)
        if self.random.random() < 0.7:
            body = self.mutate(body)
        query = {"dryRun": "All"} if self.random.random() < 0.9 else {}
        return Fuzz("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", self._encode(body), query)

    def _noise(self, request: Fuzz) -> Fuzz:
        chance = self.random.random
        if chance() < 0.10:
            request.content_type = self.random.choice(TYPES)
        if chance() < 0.10:
            request.accept = self.random.choice(ACCEPTS)
        if chance() < 0.15:
            request.query |= self._query(2)
        if chance() < 0.05:
            request.method = self.random.choice(METHODS)
        if chance() < 0.03:
            request.headers["Impersonate-User"] = self.random.choice(("jane", "", "system:admin", "é".encode().decode("latin-1")))
        if chance() < 0.02:
            request.headers["Content-Encoding"] = self.random.choice(("gzip", "x"))
        if request.body is not None and chance() < 0.15:
            request.body = self._damage(request.body)
        return request

    def _object(self, kind: Kind) -> str:
        name = quote(self._name(), safe="")
        sub = f"/{self.random.choice(SUBRESOURCES)}" if self.random.random() < 0.25 else ""
        return f"{kind.collection(self.ns)}/{name}{sub}"

    def _name(self) -> str:
        return self.random.choice(("a", "b", "c", "a", "b", "fuzz-d", "Bad", "x y", "a" * 260, ".", "a.b"))

    def _query(self, most: int) -> dict[str, str]:
        names = self.random.sample(sorted(QUERIES), self.random.randint(0, most))
        return {name: self.random.choice(QUERIES[name]) for name in names}

    def _operation(self) -> dict[str, Any]:
        pointers = (
            "/metadata/labels/x",
            "/metadata",
            "/spec/replicas",
            "/spec/containers/0/name",
            "/spec/containers/-",
            "",
            "x",
            "/~2",
            "/a/b/c",
            "/data/a",
        )
        operation = {
            "op": self.random.choice(("add", "remove", "replace", "move", "copy", "test", "jump", 1)),
            "path": self.random.choice(pointers),
        }
        operation |= {"value": self.random.choice(SCALARS + CONTAINERS), "from": self.random.choice(pointers)}
        for key in self.random.sample(sorted(operation), self.random.choice((0, 0, 0, 1))):
            del operation[key]
        return operation

    def mutate(self, value: Any) -> Any:
        """The value with zero to three things wrong."""
        value = deepcopy(value)
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 3))):
            value = self._change(value)
        return value

    def _change(self, root: Any) -> Any:
        places = list(_places(root))
        if not places:
            return self.random.choice(SCALARS + CONTAINERS)
        parent, key = self.random.choice(places)
        action = self.random.randint(0, 5)
        if action == 0:
            del parent[key]
        elif action == 1 and isinstance(parent, dict):
            parent[self.random.choice(KEYS)] = parent.pop(key)
        elif action == 2 and isinstance(parent, list):
            parent.append(deepcopy(parent[key]))
        elif action == 3:
            other, other_key = self.random.choice(places)
            parent[key] = deepcopy(other[other_key])
        elif action == 4 and isinstance(parent[key], dict):
            parent[key][self.random.choice(KEYS)] = self.random.choice(SCALARS + CONTAINERS)
        else:
            parent[key] = deepcopy(self.random.choice(SCALARS + CONTAINERS))
        return root

    def _encode(self, value: Any) -> bytes:
        return orjson.dumps(value)

    def _damage(self, body: bytes) -> bytes:
        where = self.random.randint(0, max(len(body) - 1, 0))
        return self.random.choice(
            (
                body[:where],
                body[:where] + bytes([self.random.randint(0, 255)]) + body[where + 1 :],
                body[:where] + self.random.randbytes(5) + body[where:],
                body + body,
                b"\xef\xbb\xbf" + body,
                body.replace(b'"', b"'"),
                body.replace(b":", b": 1e999, ", 1),
                b"[" * 2000 + body,
                b"",
            )
        )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside a value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(children):
        yield value, key
        yield from _places(child)
