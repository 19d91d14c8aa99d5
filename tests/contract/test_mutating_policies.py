"""MutatingAdmissionPolicies on servers that have the feature enabled: validation, patches, params, failures, and reinvocation."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.clusters import Cluster, RealCluster, TwinCluster
from tests.support.objects import config_map, pod
from tests.support.polling import eventually
from tests.support.webhooks import CONFIG_MAPS, installed, serve, webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.http import Answer, Api

Object = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1beta1"
POLICIES, BINDINGS = f"{GROUP}/mutatingadmissionpolicies", f"{GROUP}/mutatingadmissionpolicybindings"
RULE = {**CONFIG_MAPS, "operations": ["CREATE", "UPDATE"]}
PODS = {**RULE, "resources": ["pods"]}
FLAGS = ("--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(request.param)
    running: Cluster
    if request.param == "real":
        running = RealCluster(folder, server_flags=FLAGS)
    else:
        running = TwinCluster(folder, options=("--feature", "MutatingAdmissionPolicy"))
    try:
        yield running
    finally:
        running.stop()


def check(cluster: Cluster, case: str, seen: Any, ns: str) -> None:
    goldens.check("test_mutating_policies", case, seen, real=cluster.name == "real", words={ns: "NS"})


def configuration(expression: str) -> Object:
    """A mutation by an apply configuration."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Object:
    """A mutation by a JSON patch."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def labelled(name: str, value: str = "'yes'") -> Object:
    """A mutation that sets a label."""
    return configuration(f'Object{{metadata: Object.metadata{{labels: {{"{name}": {value}}}}}}}')


def policy(*mutations: Object, **spec: Any) -> Object:
    """The spec of a policy for ConfigMaps."""
    constraints = {"resourceRules": [RULE]}
    return {"matchConstraints": constraints, "mutations": list(mutations), "reinvocationPolicy": "Never", **spec}


@contextmanager
def bound(api: Api, ns: str, *specs: Object, **binding: Any) -> Iterator[None]:
    """Policies that are bound to the namespace and in use. The marker policy, which comes last, shows that they are."""
    marker = policy(labelled("marker"), matchConditions=[{"name": "marker", "expression": "object.metadata.name == 'marker'"}])
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}}
    names = [f"{ns}-{index}" for index in range(len(specs))] + [f"{ns}-marker"]
    for name, spec in zip(names, [*specs, marker], strict=True):
        api.post(POLICIES, {"metadata": {"name": name}, "spec": spec}).ok(201)
        extra = binding if name != names[-1] else {}
        api.post(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name, "matchResources": selector, **extra}}).ok(201)

    def is_used() -> bool:
        answer = api.post(f"/api/v1/namespaces/{ns}/configmaps", config_map("marker"), query={"dryRun": "All"})
        return answer.status != 201 or "labels" in answer.json["metadata"]

    try:
        eventually(is_used, 60, what="the policies are used")
        yield
    finally:
        for name in names:
            api.delete(f"{BINDINGS}/{name}")
            api.delete(f"{POLICIES}/{name}")
        eventually(lambda: not is_used(), 60, what="the policies are no longer used")


def create(api: Api, ns: str, obj: Object | None = None) -> Answer:
    """Create a ConfigMap in a dry run."""
    return api.post(f"/api/v1/namespaces/{ns}/configmaps", obj or config_map("a"), query={"dryRun": "All"})


def outcome(answer: Answer) -> Object:
    """The labels, annotations and data of a created ConfigMap, or the refusal."""
    if answer.status != 201:
        return answer.refusal
    metadata = answer.json["metadata"]
    return {**{key: metadata.get(key) for key in ("labels", "annotations")}, "data": answer.json.get("data")}


def test_defaults_and_tables(api: Api, cluster: Cluster, ns: str) -> None:
    created = api.post(POLICIES, {"metadata": {"name": ns}, "spec": policy(labelled("a"))}).ok(201).json
    binding = {"policyName": ns, "paramRef": {"name": "p", "parameterNotFoundAction": "Deny"}, "matchResources": {}}
    bound_to = api.post(BINDINGS, {"metadata": {"name": ns}, "spec": binding}).ok(201).json
    rows = []
    for path, obj in ((POLICIES, created), (BINDINGS, bound_to)):
        del obj["metadata"]["managedFields"]
        table = api.get(f"{path}/{ns}", accept="application/json;as=Table;v=v1;g=meta.k8s.io").ok().json
        rows.append([[column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"][:-1]])
        api.delete(f"{path}/{ns}").ok()
    check(cluster, "defaults", [created, bound_to], ns)
    check(cluster, "tables", rows, ns)


INVALID: dict[str, Object] = {
    "empty": {},
    "no rules": policy(labelled("a"), matchConstraints={}),
    "operations": policy(labelled("a"), matchConstraints={"resourceRules": [{**RULE, "operations": ["DELETE", "*"]}]}),
    "policies": policy(labelled("a"), failurePolicy="Maybe", reinvocationPolicy="Maybe"),
    "no patch": policy({"patchType": "JSONPatch"}, {"patchType": "ApplyConfiguration"}, {}),
    "patch type": policy({"patchType": "Merge"}),
    "both patches": policy({**labelled("a"), **patch("[JSONPatch{}]")}, {**patch("[JSONPatch{}]"), **labelled("a")}),
    "empty expressions": policy(configuration(" "), patch("")),
    "number": policy(configuration("1"), patch("1")),
    "other object": policy(configuration("Object.spec{}"), patch("[Object{}]")),
    "untyped": policy(configuration("object.x"), patch("[]")),
    "field type": policy(patch("[JSONPatch{op: 1}]")),
    "unknown variable": policy(configuration("Object{spec: params.x}")),
    "variable and condition": policy(
        labelled("a", "variables.a"),
        variables=[{"name": "a", "expression": "1 +"}],
        matchConditions=[{"name": "a", "expression": "1"}],
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_policy_is_rejected(api: Api, cluster: Cluster, ns: str, case: str) -> None:
    answer = api.post(POLICIES, {"metadata": {"name": ns}, "spec": INVALID[case]}, query={"dryRun": "All"})
    check(cluster, f"invalid: {case}", answer.refusal, ns)


def test_invalid_binding_is_rejected(api: Api, cluster: Cluster, ns: str) -> None:
    rules = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    spec = {"policyName": "A_b", "paramRef": {}, "matchResources": rules}
    check(cluster, "invalid binding", api.post(BINDINGS, {"metadata": {"name": ns}, "spec": spec}).refusal, ns)


MUTATIONS: dict[str, Object] = {
    "label": policy(labelled("a")),
    "two mutations": policy(labelled("a"), labelled("b", "object.metadata.labels.a + '!'")),
    "patch": policy(patch("""[JSONPatch{op: "add", path: "/metadata/labels", value: {"x": "y"}}]""")),
    "escaped key": policy(
        labelled("a"), patch("""[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("x/y~"), value: "z"}]""")
    ),
    "move and remove": policy(
        patch("""[JSONPatch{op: "move", from: "/data/key", path: "/data/b"}, JSONPatch{op: "add", path: "/data/c", value: "d"}]""")
    ),
    "failed test": policy(
        patch("""[JSONPatch{op: "test", path: "/data/key", value: "z"}, JSONPatch{op: "remove", path: "/data/key"}]""")
    ),
    "object in a patch": policy(
        patch("""[JSONPatch{op: "replace", path: "/metadata/labels", value: Object.metadata.labels{b: "c"}}]""")
    ),
    "condition": policy(labelled("a"), matchConditions=[{"name": "no", "expression": "object.metadata.name == 'b'"}]),
    "failing condition": policy(labelled("a"), matchConditions=[{"name": "no", "expression": "object.nothing == 'b'"}]),
    "variables": policy(
        labelled("a", "variables.b"),
        variables=[{"name": "a", "expression": "object.metadata.name"}, {"name": "b", "expression": "variables.a + 'b'"}],
    ),
    "failing variable": policy(labelled("a", "variables.b"), variables=[{"name": "b", "expression": "object.nothing"}]),
    "request and namespace": policy(labelled("a", "request.operation + namespaceObject.metadata.name")),
    "nothing": policy(configuration("Object{}"), patch("false ? [JSONPatch{}] : [JSONPatch{op: 'test', path: '/x', value: 1}]")),
    "runtime error": policy(labelled("a", "object.nothing")),
    "ignored runtime error": policy(labelled("a", "object.nothing"), failurePolicy="Ignore"),
    "error after a change": policy(labelled("a"), labelled("b", "object.nothing")),
    "unknown field": policy(configuration("Object{color: 'red'}")),
    "wrong type": policy(configuration("Object{data: 7}")),
    "wrong type name": policy(configuration("Object{metadata: Object.data{labels: {'a': 'b'}}}")),
    "missing path": policy(patch("[JSONPatch{op: 'remove', path: '/metadata/nothing'}]")),
    "bad operation": policy(patch("[JSONPatch{op: 'eat', path: '/data'}]")),
    "invalid object": policy(labelled("a", "'not valid!'")),
}


def added(path: str, value: str) -> Object:
    """A policy that adds a value."""
    return policy(patch(f"[JSONPatch{{op: 'add', path: '{path}', value: {value}}}]"))


MUTATIONS |= {
    "patch that adds a time": added("/data/a", "timestamp('2024-01-01T00:00:00Z')"),
    "patch that adds bytes": added("/data/a", "b'abc'"),
    "patch that adds a duration": added("/data/a", "duration('90s')"),
    "patch that adds a type": added("/data/a", "type(1)"),
    "patch that adds a map with numbers as keys": added("/metadata/labels", "{1: 'a'}"),
    "patch that adds an optional value": added("/data/a", "optional.of('b')"),
    "patch that adds no value": added("/data/a", "optional.none()"),
    "patch with an optional value inside": added("/metadata/labels", "{'a': optional.of('b')}"),
    "patch of another type": added("/data/a", "5"),
    "patch that replaces the metadata": added("/metadata", "5"),
    "patch that adds an unknown field": added("/color", "'red'"),
    "configuration with numbers as keys": policy(configuration("Object{metadata: Object.metadata{labels: {1: 'a'}}}")),
    "configuration with an optional value": policy(configuration("Object{data: {'a': optional.of('b')}}")),
}


@pytest.mark.parametrize("case", MUTATIONS)
def test_mutation(api: Api, cluster: Cluster, ns: str, case: str) -> None:
    with bound(api, ns, MUTATIONS[case]):
        check(cluster, f"mutation: {case}", outcome(create(api, ns, {**config_map("a"), "data": {"key": "value"}})), ns)


def test_lists_of_pods_are_merged_by_their_keys(api: Api, cluster: Cluster, ns: str) -> None:
    container = 'Object.spec.containers{name: "sidecar", image: "img:2", env: [Object.spec.containers.env{name: "A", value: "b"}]}'
    sidecar = configuration(f"Object{{spec: Object.spec{{containers: [{container}]}}}}")
    main = configuration('Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", stdin: true}]}}')
    rules = {"resourceRules": [PODS, RULE]}
    pods, obj = f"/api/v1/namespaces/{ns}/pods", pod("a", containers=[{"name": "main", "image": "img:1"}])
    with bound(api, ns, policy(sidecar, main, matchConstraints={"resourceRules": [PODS]})):
        created = api.post(pods, obj, query={"dryRun": "All"}).ok(201).json
        fields = ("name", "image", "env", "stdin", "imagePullPolicy")
        seen = [{field: item.get(field) for field in fields} for item in created["spec"]["containers"]]
        check(cluster, "containers", seen, ns)
    atomic = configuration('Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", args: ["x"]}]}}')
    with bound(api, ns, policy(atomic, matchConstraints={**rules, "resourceRules": [PODS]})):
        check(cluster, "atomic list", api.post(pods, obj, query={"dryRun": "All"}).refusal, ns)


def test_params(api: Api, cluster: Cluster, ns: str) -> None:
    core = f"/api/v1/namespaces/{ns}/configmaps"
    api.post(core, {**config_map("p"), "data": {"value": "one"}}).ok(201)
    spec = policy(labelled("param", "params.data.value"), paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    found = {"paramRef": {"name": "p", "namespace": ns, "parameterNotFoundAction": "Deny"}}
    with bound(api, ns, spec, **found):
        check(cluster, "params", outcome(create(api, ns)), ns)
    missing = {"paramRef": {"name": "absent", "namespace": ns, "parameterNotFoundAction": "Deny"}}
    with bound(api, ns, spec, **missing):
        check(cluster, "missing params", outcome(create(api, ns)), ns)


APPEND = (
    'Object{{metadata: Object.metadata{{annotations: {{"order": '
    "(has(object.metadata.annotations) && 'order' in object.metadata.annotations ? object.metadata.annotations.order : '') "
    "+ '{0}'}}}}}}"
)


@pytest.mark.parametrize("again", [("Never", "Never"), ("IfNeeded", "Never"), ("Never", "IfNeeded"), ("IfNeeded", "IfNeeded")])
def test_policies_run_again_after_changes(api: Api, cluster: Cluster, ns: str, again: tuple[str, str]) -> None:
    specs = [
        policy(configuration(APPEND.format(name)), reinvocationPolicy=reinvocation)
        for name, reinvocation in zip("ab", again, strict=True)
    ]
    with bound(api, ns, *specs):
        order = create(api, ns).ok(201).json["metadata"]["annotations"]["order"]
        # Policies have no defined order.
        check(cluster, f"order: {' '.join(again)}", "".join(sorted(order)), ns)


def test_policies_run_before_webhooks(api: Api, cluster: Cluster, ns: str, tmp_path: Path) -> None:
    def append(request: Object) -> Object:
        from tests.support.webhooks import patch as webhook_patch

        annotations = request["object"]["metadata"].get("annotations") or {}
        value = {**annotations, "order": annotations.get("order", "") + "w"}
        return webhook_patch({"op": "add", "path": "/metadata/annotations", "value": value})(request)

    with ExitStack() as stack:
        server = stack.enter_context(serve(tmp_path))
        server.paths["append"] = append
        hook = webhook("append", server.client("append"), ns, reinvocationPolicy="IfNeeded")
        stack.enter_context(installed(api, server, "Mutating", ns, hook))
        stack.enter_context(bound(api, ns, policy(configuration(APPEND.format("p")), reinvocationPolicy="IfNeeded")))
        check(cluster, "order with a webhook", outcome(create(api, ns)), ns)


def test_updates_are_mutated(api: Api, cluster: Cluster, ns: str) -> None:
    core = f"/api/v1/namespaces/{ns}/configmaps"
    api.post(core, config_map("a")).ok(201)
    spec = policy(labelled("old", "oldObject.metadata.name + request.operation"))
    constraints = {"resourceRules": [{**RULE, "operations": ["UPDATE"]}]}
    with bound(api, ns, policy(labelled("x")), {**spec, "matchConstraints": constraints}):
        updated = api.patch(f"{core}/a", {"data": {"b": "c"}}).ok()
        check(cluster, "update", {"labels": updated.json["metadata"]["labels"], "data": updated.json["data"]}, ns)
        api.delete(f"{core}/a").ok()
