"""Structured fuzzers: whatever the input, the result is a value or an error of ours.

`make test` runs the same few examples each time (10 s of CPU). `make test-heavy` sets SLICEWORKS_FUZZ: that many times as many,
at random (10 min).
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.base.http.messages import HttpError
from sliceworks.base.stream_decoder import JsonStreamDecoder, SseDecoder
from sliceworks.base.transport import Request
from sliceworks.cel.rules import compile_rules, evaluate_rules
from sliceworks.schemas import build
from sliceworks.serving.gateway.payload import UsageMeter, find_model, parse_object
from sliceworks.serving.gateway.token_limit import limit_tokens
from sliceworks.twin.controllers.kueue.configuration import parse_configuration

_FACTOR = int(os.environ.get("SLICEWORKS_FUZZ", "0"))
pytestmark = pytest.mark.timeout(3600 if _FACTOR else 300)


def fuzz(examples: int) -> settings:
    """The number of examples: fixed ones in `make test`, random ones in `make test-heavy`."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=examples * (_FACTOR or 1), derandomize=not _FACTOR, suppress_health_check=checks, deadline=None)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
YAML_TEXTS = st.text("{}[]:,-?&*!|>'\"%@`#~ \n\tab01.<", max_size=200) | st.text(max_size=100)


@fuzz(300)
@given(YAML_TEXTS, st.integers(0, 300))
def test_yaml_documents_are_loaded_or_rejected(text: str, depth: int) -> None:
    for document in (text, "a: " + "[" * depth + text, f"kind: A\nspec:\n  {text}"):
        with suppress(InvalidDocument):
            for loaded in yaml_documents.load_all(document, "f.yaml"):
                yaml_documents.load_all(yaml_documents.dump(loaded.data), "f.yaml")
        parse_configuration({"data": {"controller_manager_config.yaml": document}})


SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
STRINGS = st.recursive(
    st.sampled_from(["self.s", "'a'", "self.l[0]", "self.m['a']", "''"]),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("{}.replace({}, {})".format, inner, inner, inner),
        st.builds("{}.split({}).join({})".format, inner, inner, inner),
        st.builds("self.l.map(x, x + {}).join({})".format, inner, inner),
        st.builds("'%s-%s'.format([{}, {}])".format, inner, inner),
        st.builds("{}.upperAscii().trim().substring(0)".format, inner),
    ),
    max_leaves=6,
)
RULES = st.one_of(
    st.builds("{} == {}".format, STRINGS, STRINGS),
    st.builds("self.l.all(x, self.l.exists(y, x == y + {}))".format, STRINGS),
    st.builds("{}.size() >= self.n && has(self.s)".format, STRINGS),
    st.builds("{}.matches({})".format, STRINGS, STRINGS),
    st.text("self.lnm()[]'=&|<>+ 01", max_size=30),
)


@fuzz(60)
@given(RULES, st.integers(0, 3000), st.integers(0, 300))
def test_rules_are_compiled_and_evaluated_in_bounded_memory(rule: str, length: int, items: int) -> None:
    schema = build({**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    compile_rules(schema, "schema")
    evaluate_rules(schema, {"s": "a" * length, "n": length, "l": ["a" * 10] * items, "m": {"a": "b"}})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024


NUMBERS = st.integers(-5, 40) | st.none() | st.booleans() | st.text(max_size=3) | st.floats(0, 40)
FIELDS = [
    *("max_tokens", "max_completion_tokens", "n", "best_of", "Max_Tokens", "N", "maxTokens", "max_new_tokens", "max_to\u212aens"),
    *("num_predict", "thinking_budget"),
]
PAIRS = st.lists(st.tuples(st.sampled_from(FIELDS), NUMBERS), max_size=5)
PROMPTS = st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=20) | st.lists(st.integers(0, 9), max_size=5)
LIMIT = 12


@fuzz(400)
@given(PAIRS, PROMPTS, st.dictionaries(st.sampled_from(["parameters", "options", "tools"]), VALUES, max_size=2))
def test_no_request_passes_the_token_limit(pairs: list[tuple[str, Any]], prompt: Any, more: dict[str, Any]) -> None:
    """Duplicate fields included: whichever of them a backend reads, in any case, the limit holds."""
    fields = [*pairs, ("model", "m"), ("prompt", prompt), *more.items()]
    try:
        body = b"{" + b",".join(orjson.dumps(name) + b":" + orjson.dumps(value) for name, value in fields) + b"}"
    except TypeError:
        return
    try:
        find_model(body)
        body = limit_tokens(parse_object(body), LIMIT) or body
    except HttpError:
        return
    data = {name.casefold(): value for name, value in orjson.loads(body).items()}
    tokens = max(data.get("max_tokens") or 0, data.get("max_completion_tokens") or 0)
    completions = max(data.get("n") or 1, data.get("best_of") or 1)
    prompts = len(prompt) if isinstance(prompt, list) and any(isinstance(item, str) for item in prompt) else 1
    assert 0 < tokens * completions * prompts <= LIMIT


_LINES = [b"data: ", b"data:", b"\n", b"\r", b"\r\n", b": comment", b"event: x", b"id", b"retry: 1"]
PIECES = st.sampled_from([*_LINES, b'{"a": "}"}', b"[DONE]"])
STREAMS = st.lists(PIECES | st.binary(max_size=6), max_size=40).map(b"".join)


@fuzz(300)
@given(STREAMS, st.lists(st.integers(0, 200), max_size=8))
def test_streams_are_decoded_alike_in_any_chunks(stream: bytes, cuts: list[int]) -> None:
    """Backends and networks cut streams anywhere: the events and objects must not depend on it."""
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[start:end] for start, end in pairwise(places)]
    for decoder in (SseDecoder, JsonStreamDecoder):
        whole, parts = decoder(), decoder()
        assert [item for chunk in chunks for item in parts.feed(chunk)] == whole.feed(stream)
        assert parts.has_partial() == whole.has_partial()
    meter = UsageMeter()
    for chunk in chunks:
        meter.observe(chunk, 1.0)
    assert all(count >= 0 for count in meter.tokens(3, "chat"))


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/x.io/v1/namespaces/default/things"
MAPS = "/api/v1/namespaces/default/configmaps"
LIST_TYPES = st.sampled_from(["atomic", "set", "map", "", "x"])
PATTERNS = st.sampled_from(["(a+)+$", "^[a-z]*$", "(", "a{1000}{1000}", "\\p{L}", "(?=a)", "[[:alpha:]]", ""]) | st.text(max_size=8)
LEAVES = st.one_of(
    st.builds(lambda pattern, length: {"type": "string", "pattern": pattern, "maxLength": length}, PATTERNS, st.integers(-1, 40)),
    st.builds(lambda default: {"type": "string", "default": default}, st.sampled_from(["", "x" * 1000, 1, None, {}])),
    st.builds(lambda rule: {"type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": rule}]}, RULES),
    st.builds(lambda least, most: {"type": "integer", "minimum": least, "maximum": most}, st.integers(-9, 9), st.floats(-9, 9)),
    st.sampled_from([{"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"x-kubernetes-int-or-string": True}, {}]),
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda items, kind: {"type": "array", "items": items, "x-kubernetes-list-type": kind}, inner, LIST_TYPES),
        st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner),
        st.builds(
            lambda fields, rule: {"type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": rule}]},
            st.dictionaries(st.sampled_from("slnm"), inner, max_size=4),
            RULES,
        ),
    ),
    max_leaves=6,
)
COLUMN_PATHS = st.sampled_from([".spec", ".spec.s", ".spec..s", ".spec.l[*]", ".spec[?(@.s=='a')]", ".spec.l[5]", "..", "[", ""])
SPECS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, 1, 1.5, "a", "", [], {}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("slnm"), inner, max_size=4),
    max_leaves=8,
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": COLUMN_PATHS | st.sampled_from(
        ["/spec", "/spec/s", "/spec/l/0", "/spec/l/-", "/metadata/labels", "", "/", "/metadata/name"])},
    optional={"from": st.sampled_from(["/spec", "/spec/l", "/metadata"]), "value": SPECS},
)  # fmt: skip
PATCHES = st.one_of(
    st.tuples(st.just("application/merge-patch+json"), st.builds(lambda spec: {"spec": spec}, SPECS)),
    st.tuples(st.just("application/json-patch+json"), st.lists(OPERATIONS, max_size=4)),
    st.tuples(
        st.just("application/apply-patch+yaml"),
        st.builds(lambda spec: {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}, SPECS),
    ),
)


def _definition(spec: Any, columns: list[str]) -> dict[str, Any]:
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    root = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    version["additionalPrinterColumns"] = [
        {"name": f"c{number}", "type": "string", "jsonPath": path} for number, path in enumerate(columns)
    ]
    return {
        "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def test_definitions_and_their_objects_never_fail_inside() -> None:
    """Schemas with patterns, defaults, rules and columns, and objects and patches of all types."""

    @fuzz(30)
    @given(SCHEMAS, st.lists(COLUMN_PATHS, max_size=3), st.lists(SPECS, max_size=4), st.lists(PATCHES, max_size=4))
    def send(schema: Any, columns: list[str], specs: list[Any], patches: list[tuple[str, Any]]) -> None:
        async def main(twin: EmbeddedTwin) -> None:
            async def ask(method: str, path: str, body: Any = None, **headers: str) -> int:
                status, found = await twin.ask(method, path, body, **headers)
                assert status < 500, (method, path, body, found)
                return status

            created = await ask("POST", CRDS, _definition(schema, columns))
            await twin.quiet()
            for number, spec in enumerate(specs if created == 201 else ()):
                metadata = {"name": "a" if number == 0 else f"b{number}"}
                await ask("POST", THINGS, {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": metadata, "spec": spec})
            for kind, patch in patches if created == 201 else ():
                await ask("PATCH", f"{THINGS}/a?fieldManager=f&force=true", patch, content_type=kind)
            if created == 201:
                assert await ask("GET", THINGS, accept=TABLE) == 200

        run_on_twin(main)

    send()


POLICY_RULES = RULES.map(lambda rule: rule.replace("self.", "object.")) | st.sampled_from(
    [
        "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a + b + c + d != ''))))",
        "object.data.map(k, object.data[k].replace('a', object.data[k])).size() > 0",
        "params.a == 1 || namespaceObject.metadata.name == 'x'",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "variables.x.y.z > 0",
        "request.options.dryRun",
    ]
)


def test_admission_policies_never_fail_inside() -> None:
    admission = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]}

    @fuzz(20)
    @given(st.lists(POLICY_RULES, min_size=1, max_size=3), st.sampled_from(["Fail", "Ignore"]), st.integers(0, 3000))
    def send(rules: list[str], failure: str, size: int) -> None:
        async def main(twin: EmbeddedTwin) -> None:
            validations = [{"expression": text} for text in rules]
            spec = {"failurePolicy": failure, "matchConstraints": {"resourceRules": [rule]}, "validations": validations}
            status, found = await twin.ask(
                "POST", f"{admission}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}
            )
            assert status in (201, 422), found
            binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
            await twin.do("POST", f"{admission}/validatingadmissionpolicybindings", binding)
            await twin.quiet()
            data = {f"k{number}": "v" for number in range(40)} | {"a": "a" * size}
            status, found = await twin.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": data})
            assert status in (201, 422), found

        run_on_twin(main)

    send()


SELECTORS = st.text("ab=!,() <>in\\.", max_size=30) | st.lists(
    st.sampled_from(["a=b", "a!=b", "a in (b,c)", "a notin (b)", "!a", "a", "a>1", "a<x", "a==", "=", "in", "notin ()"]),
    max_size=40,
).map(",".join)


@fuzz(25)
@given(st.lists(st.tuples(SELECTORS, SELECTORS), min_size=5, max_size=5))
def test_selectors_never_fail_inside(pairs: list[tuple[str, str]]) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        headers = {"authorization": f"Bearer {twin.cluster.token}"}
        for labels, fields in pairs:
            query = (("labelSelector", labels), ("fieldSelector", fields))
            response = await twin.cluster.api.handle(Request("GET", MAPS, query, headers, b""))
            assert response.status in (200, 400), (labels, fields, response.body)

    run_on_twin(main)


BASE = "/container/v1/projects/p/locations/us-central1-a/clusters"
_ENDS = ("", "/c", "/c/nodePools", "/c/nodePools/x", "/c:setMaster")
PATHS = st.sampled_from([*(BASE + end for end in _ENDS), "/storage/v1/b", "/v1/"])
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"])


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return b"{}"


BODIES = st.binary(max_size=50) | VALUES.map(_dump) | VALUES.map(lambda value: _dump({"cluster": value, "nodePool": value}))
REQUESTS = st.tuples(METHODS, PATHS | st.text(max_size=20).map(lambda text: f"/v1/{text}"), BODIES)


def test_cloud_requests_never_fail_inside() -> None:
    @fuzz(80)
    @given(
        st.lists(st.tuples(METHODS, PATHS | st.text(max_size=20).map(lambda text: f"/v1/{text}"), BODIES), min_size=1, max_size=4)
    )
    def send(requests: list[tuple[str, str, bytes]]) -> None:
        async def main(twin: EmbeddedTwin) -> None:
            for method, path, body in requests:
                headers = {"content-type": "application/json", "authorization": f"Bearer {twin.cluster.token}"}
                response = await twin.cluster.serve_cloud(Request(method, path, (), headers, body), None)
                assert response.status < 500 or response.status == 501, (method, path, body, response.body)

        run_on_twin(main)

    send()
