"""Cost budgets of CEL rules: which definitions are rejected, and which rules stop at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.custom_resources import CRDS, define, simple

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

Object = dict[str, Any]

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def array(items: Object, **limits: int) -> Object:
    return {"type": "array", "items": items, **limits}


def mapping(values: Object, **limits: int) -> Object:
    return {"type": "object", "additionalProperties": values, **limits}


def spec(rule: str, message: str = "", **properties: Object) -> Object:
    extra = {"messageExpression": message} if message else {}
    return {"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule, **extra}]}


def within(schema: Object, rule: str) -> Object:
    return {**schema, "x-kubernetes-validations": [{"rule": rule}]}


_SHORT = {"type": "string", "maxLength": 10}
_NESTED = "self.l.all(x, self.l.all(y, x == y))"
_DEEP = "self.l.all(x, self.l.all(y, self.l.all(z, x == y || y == z)))"

DEFINITIONS: dict[str, Object] = {
    "string": spec("self.s == 'a'", s=TEXT),
    "split and join": spec("self.s.split('').map(x, self.s.split('').join(x)).size() >= 0", s=TEXT),
    "split and join, short": spec("self.s.split('').map(x, self.s.split('').join(x)).size() >= 0", s=_SHORT),
    "replace by itself": spec("self.s.replace('a', self.s).size() >= 0", s=TEXT),
    "replace thrice": spec("self.s.replace('a', 'bbbb').replace('b', 'cccc').replace('c', 'dd').startsWith('d')", s=TEXT),
    "loop": spec("self.l.all(x, x > 0)", l=array(NUMBER)),
    "loop over strings": spec("self.l.all(x, x.startsWith('a'))", l=array(TEXT)),
    "loop over strings with contains": spec("self.l.all(x, x.contains('abc'))", l=array(TEXT)),
    "nested loop": spec(_NESTED, l=array(NUMBER)),
    "nested loop of 100": spec(_NESTED, l=array(NUMBER, maxItems=100)),
    "nested loop of 1,000": spec(_NESTED, l=array(NUMBER, maxItems=1000)),
    "nested loop of 2,000": spec(_NESTED, l=array(NUMBER, maxItems=2000)),
    "nested loop of strings": spec(_NESTED, l=array(_SHORT, maxItems=500)),
    "three loops": spec(_DEEP, l=array(NUMBER, maxItems=100)),
    "three loops of 300": spec(_DEEP, l=array(NUMBER, maxItems=300)),
    "map": spec("self.m.all(k, self.m[k] == k)", m=mapping(TEXT)),
    "map of 1,000": spec("self.m.all(k, self.m[k] == k)", m=mapping(_SHORT, maxProperties=1000)),
    "regular expression": spec("self.s.matches('^(a+)+$')", s=TEXT),
    "regular expressions": spec("self.l.all(x, x.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))", l=array(TEXT)),
    "regular expressions of 64": spec(
        "self.l.all(x, x.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))", l=array({**TEXT, "maxLength": 253}, maxItems=64)
    ),
    "sum": spec("self.l.sum() > 3 && self.l.isSorted()", l=array(NUMBER)),
    "sorted strings": spec("self.l.isSorted()", l=array(TEXT)),
    "sets": spec("sets.contains(self.l, self.l)", l=array(TEXT, maxItems=5000)),
    "unique": spec("self.l.all(x, self.l.exists_one(y, x == y))", l=array(_SHORT, maxItems=256)),
    "concatenation": spec("self.l.map(x, x + self.s).size() > 1", l=array(TEXT), s=TEXT),
    "concatenation of 10": spec("self.l.map(x, x + self.s).size() > 1", l=array(_SHORT, maxItems=10), s=_SHORT),
    "doubled": spec("[self.s]" + ".map(a, a + a)" * 6 + "[0].size() > 1", s=TEXT),
    "quantity": spec("self.l.all(x, quantity(x).isLessThan(quantity('1Gi')))", l=array(TEXT)),
    "quantity of 10": spec("self.l.all(x, quantity(x).isLessThan(quantity('1Gi')))", l=array(_SHORT, maxItems=10)),
    "address": spec("self.l.all(x, isIP(x) && ip(x).family() == 4)", l=array(TEXT)),
    "url": spec("self.l.all(x, url(x).getHost() == 'a')", l=array(TEXT)),
    "enum": spec("self.l.all(x, x == 'a')", l=array({"type": "string", "enum": ["a", "b"]}, maxItems=100_000)),
    "has": spec("has(self.s) && self.s.size() > 1", s=TEXT),
    "conditional": spec("(self.s.size() > 1 ? self.s : self.l[0]).startsWith(self.s)", s=TEXT, l=array(TEXT)),
    "transformed": spec("self.m.all(k, v, k.size() > v.size())", m=mapping(TEXT)),
    "filtered": spec("self.l.filter(x, x.size() > 1).map(x, x + '!').exists(x, x == 'a!')", l=array(TEXT)),
    "range": spec("lists.range(10000).all(x, lists.range(10000).all(y, x + y >= 0))", s=TEXT),
    "flattened": spec("self.l.flatten().size() > 1", l=array(array(NUMBER))),
    "distinct": spec("self.l.distinct().size() > 1", l=array(NUMBER)),
    "joined": spec("self.l.join(self.s).size() > 1", l=array(TEXT), s=TEXT),
    "found": spec("self.s.findAll('[a-z]+').all(x, x.size() > 1)", s=TEXT),
    "date": spec("self.l.all(x, x < timestamp('2026-01-01T00:00:00Z'))", l=array({"type": "string", "format": "date-time"})),
    "either": spec("self.l.all(x, type(x) == int || x.startsWith('a'))", l=array({"x-kubernetes-int-or-string": True})),
    "message": spec("self.s == 'a'", message="self.l.map(x, self.l.map(y, x + y).join(',')).join(',')", s=TEXT, l=array(TEXT)),
    "in items": {"type": "object", "properties": {"l": array(within(TEXT, "self.startsWith('a')"))}},
    "in items of 10": {"type": "object", "properties": {"l": array(within(TEXT, "self.startsWith('a')"), maxItems=10)}},
    "in items, compared": {"type": "object", "properties": {"l": array(within(TEXT, "self == self + 'a'"))}},
    "in items of items": {
        "type": "object",
        "properties": {"l": array(array(within(_SHORT, "self.matches('^a+$')"), maxItems=1000), maxItems=1000)},
    },
    "in values": {"type": "object", "properties": {"m": mapping(within(_SHORT, "self != 'a'"), maxProperties=10)}},
    "many rules": {
        "type": "object",
        "properties": {f"l{i}": within(array(NUMBER, maxItems=1000 + i), "self.all(x, self.all(y, x > y))") for i in range(15)},
    },
}


@pytest.mark.parametrize("case", DEFINITIONS)
def test_definition_is_accepted_or_rejected_by_its_cost(cluster: Cluster, case: str) -> None:
    body = simple(spec=DEFINITIONS[case])
    response = cluster.api.post(CRDS, body, query={"dryRun": "All"})
    causes = sorted((cause["field"], cause["message"]) for cause in (response.json.get("details") or {}).get("causes") or ())
    assert response.status == (422 if causes else 201)
    goldens.check("test_cel_cost", case, causes, real=cluster.name == "real")


def test_rule_that_exceeds_the_cost_of_a_call_stops(cluster: Cluster, ns: str) -> None:
    custom = define(cluster.api, simple(spec=spec(_NESTED.replace("x == y", "x >= 0 || y >= 0"), l=array(NUMBER, maxItems=1000))))
    assert cluster.api.post(custom.at(ns), custom.object("small", spec={"l": list(range(50))})).status == 201
    answer = cluster.api.post(custom.at(ns), custom.object("large", spec={"l": list(range(1000))})).refused(422, "Invalid")
    goldens.check("test_cel_cost", "call", answer.refusal, real=cluster.name == "real", words={custom.group: "GROUP"})
