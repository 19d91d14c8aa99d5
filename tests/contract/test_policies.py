"""ValidatingAdmissionPolicies on the twin and on kube-apiserver: validation, decisions, params, and expressions that fail."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.objects import config_map
from tests.support.polling import eventually
from tests.support.webhooks import CONFIG_MAPS, GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api

Object = dict[str, Any]
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
RULE = {**CONFIG_MAPS, "operations": ["CREATE", "UPDATE"]}
MARKER = {"expression": "!has(object.metadata.labels) || !('marker' in object.metadata.labels)", "message": "marker"}


def check(cluster: Cluster, case: str, seen: Any, ns: str) -> None:
    goldens.check("test_policies", case, seen, real=cluster.name == "real", words={ns: "NS"})


def policy(*validations: Object, **spec: Any) -> Object:
    """The spec of a policy for ConfigMaps."""
    return {"matchConstraints": {"resourceRules": [RULE]}, "validations": list(validations), **spec}


@contextmanager
def bound(api: Api, ns: str, spec: Object, **binding: Any) -> Iterator[None]:
    """A policy that is bound to the namespace and in use; the last validation denies ConfigMaps with the label `marker`."""
    spec = {**spec, "validations": [*spec.get("validations", []), MARKER]}
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}}
    api.post(POLICIES, {"metadata": {"name": ns}, "spec": spec}).ok(201)
    bound_to = {"policyName": ns, "validationActions": ["Deny"], "matchResources": selector, **binding}
    api.post(BINDINGS, {"metadata": {"name": ns}, "spec": bound_to}).ok(201)
    probe = config_map("marker", labels={"marker": "yes"})

    def is_used() -> bool:
        response = api.post(f"/api/v1/namespaces/{ns}/configmaps", probe, query={"dryRun": "All"})
        return response.status != 201 or bool(response.warnings)

    try:
        eventually(is_used, 60, what="the policy is used")
        yield
    finally:
        api.delete(f"{BINDINGS}/{ns}")
        api.delete(f"{POLICIES}/{ns}")
        eventually(lambda: not is_used(), 60, what="the policy is no longer used")


def test_defaults_and_tables(api: Api, cluster: Cluster, ns: str) -> None:
    created = api.post(POLICIES, {"metadata": {"name": ns}, "spec": policy({"expression": "true"})}).ok(201).json
    binding = {"policyName": ns, "validationActions": ["Audit"], "paramRef": {"name": "p", "parameterNotFoundAction": "Deny"}}
    bound_to = api.post(BINDINGS, {"metadata": {"name": ns}, "spec": {**binding, "matchResources": {}}}).ok(201).json
    for obj in (created, bound_to):
        del obj["metadata"]["managedFields"]
    check(cluster, "defaults", [created, bound_to], ns)
    rows = []
    for path in (POLICIES, BINDINGS):
        table = api.get(f"{path}/{ns}", accept="application/json;as=Table;v=v1;g=meta.k8s.io").ok().json
        rows.append([[column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"][:-1]])
    check(cluster, "tables", rows, ns)
    status = {"status": {"observedGeneration": 1}}
    assert api.patch(f"{POLICIES}/{ns}/status", status).ok().json["status"]["observedGeneration"] == 1
    api.delete(f"{BINDINGS}/{ns}").ok()
    api.delete(f"{POLICIES}/{ns}").ok()


INVALID: dict[str, Object] = {
    "empty": {},
    "no rules": {"matchConstraints": {}, "validations": [{"expression": "true"}]},
    "bad rule": policy({"expression": "true"}, matchConstraints={"resourceRules": [{**RULE, "resourceNames": ["a", "a", "b/c"]}]}),
    "bad expressions": policy(
        {"expression": "object.x >"},
        {"expression": "1"},
        {"expression": " "},
        {"expression": "true", "messageExpression": "1 + 1", "message": " ", "reason": "Because"},
        {"expression": "true", "messageExpression": " ", "message": "a\nb"},
        {"expression": "params.x == 1"},
        {"expression": "variables.x == 1"},
    ),
    "variables": policy(
        {"expression": "variables.a > 1 && variables.c"},
        variables=[{"name": "a", "expression": "1"}, {"name": "a-b", "expression": "2"}, {"name": "", "expression": ""}],
    ),
    "param kind": policy({"expression": "params == null"}, paramKind={"apiVersion": "a/b/c", "kind": "9"}),
    "no param kind": policy({"expression": "true"}, paramKind={}),
    "failure policy": policy({"expression": "true"}, failurePolicy="Maybe"),
    "annotations": policy(
        auditAnnotations=[
            {"key": "a b", "valueExpression": ""},
            {"key": "c", "valueExpression": "1"},
            {"key": "c", "valueExpression": "'x'"},
        ]
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_policy_is_rejected(api: Api, cluster: Cluster, ns: str, case: str) -> None:
    check(cluster, f"policy: {case}", api.post(POLICIES, {"metadata": {"name": ns}, "spec": INVALID[case]}).refusal, ns)


INVALID_BINDINGS: dict[str, Object] = {
    "empty": {},
    "actions": {"policyName": "A", "validationActions": ["Deny", "Warn", "Deny", "Eat"]},
    "params": {"policyName": "a", "validationActions": ["Deny"], "paramRef": {"name": "a/b", "selector": {}}},
    "no params": {"policyName": "a", "validationActions": ["Deny"], "paramRef": {"parameterNotFoundAction": "Maybe"}},
}


@pytest.mark.parametrize("case", INVALID_BINDINGS)
def test_invalid_binding_is_rejected(api: Api, cluster: Cluster, ns: str, case: str) -> None:
    response = api.post(BINDINGS, {"metadata": {"name": ns}, "spec": INVALID_BINDINGS[case]})
    check(cluster, f"binding: {case}", response.refusal, ns)


def test_decisions(api: Api, cluster: Cluster, ns: str, core: str) -> None:
    validations = (
        {"expression": "object.data.a != 'no'"},
        {"expression": "object.data.a != 'forbidden'", "message": "not this", "reason": "Forbidden"},
        {"expression": "variables.value != 'computed'", "messageExpression": "'value is ' + variables.value"},
        {"expression": "object.data.a != 'fails' || object.data.nope == 'x'"},
        {"expression": "object.data.a != 'namespace' || namespaceObject.metadata.name != request.namespace"},
        {"expression": "object.data.a != 'user' || authorizer.group('').resource('pods').check('create').allowed() == false"},
        {"expression": "object.data.a != 'broken' || variables.broken == 1"},
        {"expression": "object.data.a != 'lines' || false", "messageExpression": "'a\\nb'", "message": "one line"},
        {"expression": "object.data.a != 'update' || oldObject == null"},
    )
    variables = [{"name": "value", "expression": "object.data.a"}, {"name": "broken", "expression": "object.nope.nope"}]
    conditions = [{"name": "not-exempt", "expression": "object.metadata.name != 'exempt'"}]
    seen = {}
    with bound(api, ns, policy(*validations, variables=variables, matchConditions=conditions)):
        for value in ("yes", "no", "forbidden", "computed", "fails", "namespace", "user", "broken", "lines"):
            response = api.post(f"{core}/configmaps", config_map("a", {"a": value}), query={"dryRun": "All"})
            seen[value] = response.status if response.status == 201 else response.json
        generated = {"metadata": {"generateName": "g-"}, "data": {"a": "no"}}
        seen["generated"] = api.post(f"{core}/configmaps", generated).message.partition(" is forbidden")[2]
        api.post(f"{core}/configmaps", config_map("exempt", {"a": "no"})).ok(201)
        api.post(f"{core}/configmaps", config_map("u", {"a": "yes"})).ok(201)
        seen["update"] = api.patch(f"{core}/configmaps/u", {"data": {"a": "update"}}).json
    check(cluster, "decisions", seen, ns)


def test_failure_policy_ignore_and_warnings(api: Api, *, ns: str, core: str) -> None:
    fails = {"expression": "object.data.nope == 'x'"}
    with bound(api, ns, policy(fails, failurePolicy="Ignore")):
        api.post(f"{core}/configmaps", config_map("a")).ok(201)
    denies = {"expression": "object.data.a != '1'", "message": "no one"}
    with bound(api, ns, policy(denies), validationActions=["Warn", "Audit"]):
        warnings = api.post(f"{core}/configmaps", config_map("b")).ok(201).warnings
    assert warnings == [
        f"299 - \"Validation failed for ValidatingAdmissionPolicy '{ns}' with binding '{ns}': no one\"",
    ]


def test_params(api: Api, cluster: Cluster, *, ns: str, core: str) -> None:
    limit = {
        "expression": "params == null || int(object.data.a) <= int(params.data.limit)",
        "messageExpression": "'limit ' + params.data.limit",
    }
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    spec = policy(limit, paramKind=kind, matchConditions=[{"name": "no-limits", "expression": "!has(object.data.limit)"}])
    for name, value in (("low", "3"), ("high", "5")):
        api.post(f"{core}/configmaps", config_map(name, {"limit": value}, labels={"limits": "yes"})).ok(201)
    references = {
        "name": {"name": "low", "parameterNotFoundAction": "Deny"},
        "selector": {"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny"},
        "missing": {"name": "nope", "parameterNotFoundAction": "Deny"},
    }
    seen = {}
    for case, reference in references.items():
        with bound(api, ns, spec, paramRef=reference):
            answers = [
                api.post(f"{core}/configmaps", config_map("a", {"a": value}), query={"dryRun": "All"}) for value in ("2", "4")
            ]
            seen[case] = [answer.status if answer.status == 201 else answer.json for answer in answers]
    check(cluster, "params", seen, ns)


VALUES = ["duration('90s')", "timestamp('2024-01-01T00:00:00Z')", "b'abc'", "{1: 'a'}", "{'a': [duration('-1.5s')]}"]


@pytest.mark.parametrize("value", VALUES)
def test_variables_have_values_that_json_does_not_have(api: Api, ns: str, core: str, value: str) -> None:
    variables = [{"name": "a", "expression": value}]
    with bound(api, ns, policy({"expression": f"variables.a == {value} && object.metadata.name != 'no'"}, variables=variables)):
        assert api.post(f"{core}/configmaps", config_map("yes")).status == 201
        assert api.post(f"{core}/configmaps", config_map("no")).status == 422


def test_unknown_param_kind_fails_closed(api: Api, cluster: Cluster, *, ns: str, core: str) -> None:
    spec = policy({"expression": "true"}, paramKind={"apiVersion": "nope.example.com/v1", "kind": "Nope"})
    with bound(api, ns, spec, paramRef={"name": "a", "parameterNotFoundAction": "Deny"}):
        check(cluster, "unknown param kind", api.post(f"{core}/configmaps", config_map("a")).json, ns)


def test_policies_are_exempt_and_excluded_rules_do_not_match(api: Api, *, ns: str, core: str) -> None:
    named = {**RULE, "resourceNames": ["free"]}
    constraints = {"resourceRules": [RULE], "excludeResourceRules": [named]}
    with bound(api, ns, policy({"expression": "false", "message": "never"}, matchConstraints=constraints)):
        api.post(f"{core}/configmaps", config_map("free")).ok(201)
        api.post(f"{core}/configmaps", config_map("other")).refused(
            422,
            "Invalid",
            f"configmaps \"other\" is forbidden: ValidatingAdmissionPolicy '{ns}' with binding '{ns}' denied request: never",
        )


CHECKED: dict[str, Object] = {
    "no problem": {"matchConstraints": {"resourceRules": [{**RULE, "apiGroups": ["apps"], "resources": ["deployments"]}]}},
    "core kinds": {
        "matchConstraints": {"resourceRules": [{**RULE, "resources": ["pods", "configmaps", "pods/status", "nothing"]}]}
    },
    "wildcard": {"matchConstraints": {"resourceRules": [{**RULE, "apiGroups": ["*"], "resources": ["deployments"]}]}},
    "params and variables": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "replicas", "expression": "object.spec.replicas"}],
        "matchConstraints": {"resourceRules": [{**RULE, "apiGroups": ["apps"], "resources": ["deployments"]}]},
        "validations": [{"expression": "params.data.size() > 1 && variables.replicas.x"}, {"expression": "params.nothing == 1"}],
    },
}


@pytest.mark.parametrize("case", CHECKED)
def test_expressions_are_type_checked(api: Api, cluster: Cluster, ns: str, case: str) -> None:
    validations = [
        {"expression": "object.spec.replicas > 1"},
        {"expression": "object.metadata.name == 'x'", "messageExpression": "'a' + object.spec.template.nothing"},
        {"expression": "has(object.spec.containers) || object.metadata.labels['a'] == 1 && request.operation == 'CREATE'"},
    ]
    api.post(POLICIES, {"metadata": {"name": ns}, "spec": {"validations": validations, **CHECKED[case]}}).ok(201)

    def status() -> Object | None:
        found: Object = api.get(f"{POLICIES}/{ns}").ok().json.get("status") or {}
        return found if "observedGeneration" in found else None

    check(cluster, f"types: {case}", eventually(status, 60, what="the policy is checked"), ns)
    api.delete(f"{POLICIES}/{ns}").ok()
