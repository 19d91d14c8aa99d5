"""A seeded generator of malformed requests and CustomResourceDefinitions."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from tests.support.http import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, YAML
from tests.support.objects import KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator


SCALARS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    1.5,
    1e300,
    "",
    "x",
    "Upper Case",
    "-",
    "a" * 300,
    "☃",
    "\u0000",
    "true",
    "1",
    "100m",
    "1e400",
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "${x}",
    "../..",
    "%s%n",
    "\ud7ff",
    "k8s.io/a/b",
)


CONTAINERS: tuple[Any, ...] = (
    [],
    {},
    [[]],
    [None],
    {"a": None},
    {"": ""},
    [{}],
    [{"name": "x"}, {"name": "x"}],
    {"a": {"b": [1, {"c": []}]}},
)


KEYS = (
    "",
    "x",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "a/b",
    "~",
    "metadata",
    "spec",
    "name",
    "kind",
    "apiVersion",
    "status",
)


TYPES = (
    JSON,
    YAML,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    APPLY_PATCH,
    "text/plain",
    "application/vnd.kubernetes.protobuf",
    "",
    "garbage",
    "a/b;c=d",
)


ACCEPTS = (
    JSON,
    YAML,
    "*/*",
    "text/html",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Nothing;v=v9;g=x",
    "garbage;;",
    "",
)


QUERIES: dict[str, tuple[str, ...]] = {
    "dryRun": ("All", "None", "all", ""),
    "fieldManager": ("m", "", "m" * 200, "\n"),
    "fieldSelector": ("metadata.name=x", "spec.nodeName=", "a=b", "=", "metadata.name", "metadata.name=x,", "a!=b!=c", "\\"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "Maybe"),
    "force": ("true", "false", "2"),
    "gracePeriodSeconds": ("0", "-1", "x", "9999999999999999999999"),
    "includeObject": ("None", "Everything"),
    "labelSelector": ("a=b", "a in (b,c)", "a in (", "!", "a notin ()", "=,=", "a>1", "a>x", "é=1", "a==b,c"),
    "limit": ("1", "0", "-1", "x", "99999999999999999999"),
    "continue": ("x", "eyJ2IjoiIn0", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4ifQ", "%%%"),
    "orphanDependents": ("true", "x"),
    "pretty": ("true", "x"),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "Sideways"),
    "resourceVersion": ("0", "1", "-1", "x", "", "999999999999999999999999"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "Close"),
    "sendInitialEvents": ("x",),
    "container": ("x", ""),
    "tailLines": ("-1", "x"),
}


SUBRESOURCES = ("status", "scale", "binding", "eviction", "log", "token", "finalize", "exec", "proxy", "nothing", "", "status/x")


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "GET", "POST", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW")


RULES = (
    "self.a > 1",
    "self.a >",
    "self.b == 'x'",
    "oldSelf.a <= self.a",
    "1 / 0 > 1",
    "self.all(x, x > 0)",
    "has(self.a) && self.a in [1, 2]",
    "'x' + 1",
    "self",
    "",
    "self.a.matches('(')",
    "size(self.a) > 99999999999999999999",
    "[1,2,3].map(x, x * 2).exists(x, x > 2)",
    "duration('x') > duration('1s')",
    "quantity(self.a).isGreaterThan(quantity('1'))",
    "((((((((((1))))))))))",
    "self.metadata.name == 'x'",
    "ip(self.a).family() == 4",
    "a.b.c.d",
    "dyn(self).x",
    "'" + "y" * 5000 + "' == ''",
    "true ? false : true",
    "self.a.b.c == 1",
    "cel.bind(x, 1, x > 0)",
    "optional.of(1).hasValue()",
    "\u0000",
    "self.?a.orValue(1) > 0",
)


SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "integer", "minimum": 1, "default": 3},
    {"type": "string", "pattern": "^[a-z]*$", "maxLength": 10},
    {"type": "string", "pattern": "(((("},
    {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    {
        "type": "array",
        "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
        "x-kubernetes-list-type": "map",
    },
    {"type": "object", "additionalProperties": {"type": "number"}},
    {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    {"x-kubernetes-int-or-string": True},
    {"type": "colour"},
    {},
    {"type": "string", "enum": ["a", "b"], "nullable": True},
    {"type": "object", "properties": {"x": {"type": "boolean", "default": "no"}}},
    {"$ref": "#/x"},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"type": "string"}]},
)


def definition(source: random.Random) -> dict[str, Any]:
    """Generate a definition with random properties and rules; most are invalid."""
    properties = {name: dict(source.choice(SCHEMAS)) for name in ("a", "b", "c")}
    spec: dict[str, Any] = {"type": "object", "properties": properties}
    if source.random() < 0.8:
        spec["x-kubernetes-validations"] = [{"rule": source.choice(RULES), "message": "no"} for _ in range(source.randint(1, 2))]
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    if source.random() < 0.3:
        version["subresources"] = {"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}}
    plural = source.choice(("fuzzes", "fuzzies"))
    names = {"plural": plural, "kind": "Fuzz"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.fuzz.example.com"},
        "spec": {"group": "fuzz.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


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
    """Generates requests to one namespace; cluster-scoped objects are only read."""

    def __init__(self, seed: int, ns: str) -> None:
        self.random = random.Random(seed)
        self.ns = ns

    def requests(self, count: int) -> Iterator[Fuzz]:
        """Generate this many requests."""
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
        body = definition(self.random)
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
        """Return the value with zero to three random changes."""
        value = deepcopy(value)
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 3))):
            value = self._change(value)
        return value

    def _change(self, root: Any) -> Any:
        places = list(_places(root))
        if not places:
            return deepcopy(self.random.choice(SCALARS + CONTAINERS))
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
            parent[key][self.random.choice(KEYS)] = deepcopy(self.random.choice(SCALARS + CONTAINERS))
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
    """Every (container, key) pair inside a value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(children):
        yield value, key
        yield from _places(child)
