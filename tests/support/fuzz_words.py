"""The odd values that broken requests are made of."""

from __future__ import annotations

from typing import Any

from tests.support.http import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, YAML

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
