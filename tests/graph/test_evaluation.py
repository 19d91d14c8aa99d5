"""Evaluation of a graph for one instance: desired, excluded and pending resources, and failures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.definitions import graph, instance

from sliceworks.graph.evaluation import Evaluation
from sliceworks.graph.model import Condition, DataPending, Desired, EvaluationFailed, Excluded, Graph, Lookup, Node, Outcome


def _config_map(name: str, data: str = "{}", head: str = "") -> str:
    return f"""\
- id: {name}
{head}  template:
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: ${{schema.metadata.name}}-{name}
    data: {data}
"""


_DEPLOYMENT = """\
- id: server
  readyWhen:
  - ${server.status.availableReplicas == server.spec.replicas}
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: ${schema.metadata.name}
    spec:
      replicas: ${schema.spec.replicas}
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers:
          - name: web
            image: nginx
            args: ["--title=${schema.spec.title}", "${schema.spec.?owner}"]
"""


def _first(compiled: Graph, **spec: Any) -> Any:
    """The outcome of the first resource."""
    return Evaluation(compiled, instance(**spec)).resolve(compiled.nodes[0])


def _evaluate(compiled: Graph, instance: dict[str, Any], observed: dict[str, list[dict[str, Any]]]) -> dict[str, Outcome]:
    """The outcome of every resource for the observed objects."""
    evaluation = Evaluation(compiled, instance)
    outcomes = {}
    for node in compiled.nodes:
        outcomes[node.id] = evaluation.resolve(node)
        if node.id in observed:
            evaluation.observe(node.id, observed[node.id])
    return outcomes


def _objects(evaluation: Evaluation, node: Node) -> tuple[dict[str, Any], ...]:
    outcome = evaluation.resolve(node)
    assert isinstance(outcome, Desired)
    return outcome.objects


def _data(compiled: Graph, **spec: Any) -> Any:
    outcome = _first(compiled, **spec)
    assert isinstance(outcome, Desired)
    return outcome.objects[0].get("data")


def test_resolve_renders_template() -> None:
    outcome = _first(graph(_DEPLOYMENT), replicas=3, owner="ann")
    assert isinstance(outcome, Desired)
    desired = outcome.objects[0]
    assert desired["metadata"] == {"name": "home", "namespace": "web"}
    assert desired["spec"]["replicas"] == 3
    assert desired["spec"]["template"]["spec"]["containers"][0]["args"] == ["--title=hello", "ann"]


def test_resolve_returns_new_objects() -> None:
    compiled = graph(_DEPLOYMENT)
    first, second = (_first(compiled), _first(compiled))
    first.objects[0]["spec"]["selector"]["matchLabels"]["app"] = "other"
    assert second.objects[0]["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    assert _first(compiled).objects[0]["spec"]["selector"] == {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("{a: '${schema.spec.owner}'}", {}),
        ("{a: '${schema.spec.?owner}'}", {}),
        ("{a: '${schema.spec.?owner.orValue(\"none\")}'}", {"a": "none"}),
        ("{a: '${has(schema.spec.owner) ? schema.spec.owner : omit()}', b: c}", {"b": "c"}),
        ("{a: '${schema.spec.tls ? \"yes\" : omit()}'}", {}),
    ],
)
def test_unset_optional_values_are_absent(data: str, expected: dict[str, str]) -> None:
    assert _data(graph(_config_map("config", data))) == expected


@pytest.mark.parametrize(
    ("data", "reason", "hint"),
    [
        (
            "{a: '${schema.spec.owner + \"!\"}'}",
            '${schema.spec.owner + "!"}: schema.spec.owner not found',
            "set it, give it a default, or write schema.spec.?owner.orValue(…)",
        ),
        ("{a: 'by ${schema.spec.owner}'}", "by ${schema.spec.owner}: schema.spec.owner not found", "set it"),
        ("{a: '${string(schema.spec.replicas / 0)}'}", "${string(schema.spec.replicas / 0)}: division by zero", ""),
        ("{a: '${schema.spec.regions[3] + \"\"}'}", "schema.spec.regions[3] not found", "set"),
    ],
)
def test_failure_has_place_and_hint(data: str, reason: str, hint: str) -> None:
    with pytest.raises(EvaluationFailed) as failed:
        _first(graph(_config_map("config", data)), regions=["eu"])
    assert str(failed.value).startswith("rgd.yaml:21: ")
    assert reason in str(failed.value)
    assert failed.value.hint.startswith(hint)
    assert failed.value.path == ("spec", "resources", 0, "template", "data", "a")


def test_name_is_required() -> None:
    with pytest.raises(EvaluationFailed, match=r"metadata\.name: the ConfigMap has no name"):
        _first(graph(_config_map("config").replace("${schema.metadata.name}-config", "${schema.spec.owner}")))


def test_resource_is_pending_until_dependency_has_data() -> None:
    compiled = graph(
        _DEPLOYMENT + _config_map("config", "{a: '${server.metadata.name}', b: '${string(server.status.readyReplicas)}'}")
    )
    server, config = compiled.nodes
    evaluation = Evaluation(compiled, instance())
    desired = evaluation.resolve(server)
    assert isinstance(desired, Desired)
    assert evaluation.readiness(server) == DataPending("object not found", on=("server",))
    assert evaluation.resolve(config) == DataPending("server is not ready: object not found", on=("server",))

    evaluation.observe("server", [desired.objects[0]])
    ready = compiled.node("server").ready_when[0].source
    assert evaluation.readiness(server) == DataPending("waiting for server.status.availableReplicas", ready, ("server",))

    evaluation.observe("server", [{**desired.objects[0], "status": {"availableReplicas": 0}}])
    assert evaluation.readiness(server) == DataPending(f"{ready} is false", ready, ("server",))

    evaluation.observe("server", [{**desired.objects[0], "status": {"availableReplicas": 1}}])
    assert evaluation.readiness(server) is None
    assert evaluation.resolve(config) == DataPending(
        "waiting for server.status.readyReplicas", "${string(server.status.readyReplicas)}", ("server",)
    )

    evaluation.observe("server", [{**desired.objects[0], "status": {"availableReplicas": 1, "readyReplicas": 1}}])
    outcome = evaluation.resolve(config)
    assert isinstance(outcome, Desired)
    assert outcome.objects[0]["data"] == {"a": "home", "b": "1"}


def test_long_dependency_chain_resolves_in_one_evaluation() -> None:
    chain = "".join(
        _config_map(f"c{index}", "{a: b}" if not index else f"{{a: '${{c{index - 1}.metadata.name}}'}}") for index in range(300)
    )
    compiled = graph(chain)
    evaluation = Evaluation(compiled, instance())
    for node in compiled.nodes:
        evaluation.observe(node.id, _objects(evaluation, node))
    assert _objects(evaluation, compiled.nodes[-1])[0]["data"] == {"a": "home-c298"}


def test_observe_invalidates_pending_dependents() -> None:
    compiled = graph(_config_map("a", "{x: y}") + _config_map("b", "{x: '${a.data.x}'}") + _config_map("c", "{x: '${b.data.x}'}"))
    evaluation = Evaluation(compiled, instance())
    a, b, c = compiled.nodes
    assert evaluation.resolve(c) == DataPending("a is not ready: object not found", on=("b",))
    evaluation.observe("a", _objects(evaluation, a))
    assert isinstance(evaluation.resolve(b), Desired)
    evaluation.observe("b", _objects(evaluation, b))
    assert isinstance(evaluation.resolve(c), Desired)


def test_dependents_of_failed_resource_are_pending() -> None:
    compiled = graph(_config_map("a", "{x: '${string(1 / 0)}'}") + _config_map("b", "{x: '${a.data.x}'}") + _config_map("c"))
    evaluation = Evaluation(compiled, instance())
    a, b, c = compiled.nodes
    for _ in range(2):
        with pytest.raises(EvaluationFailed):
            evaluation.resolve(a)
    assert evaluation.resolve(b) == DataPending("a failed: division by zero", "${string(1 / 0)}", ("a",))
    assert isinstance(evaluation.resolve(c), Desired)


def test_include_when_excludes_resource_and_dependents() -> None:
    condition = "  includeWhen: ['${schema.spec.tls}']\n"
    compiled = graph(_config_map("a", head=condition) + _config_map("b", "{x: '${a.metadata.name}'}") + _config_map("c"))
    excluded = _evaluate(compiled, instance(tls=False), {})
    assert excluded["a"] == Excluded("${schema.spec.tls}")
    assert excluded["b"] == Excluded(excluded_by="a")
    assert isinstance(excluded["c"], Desired)
    included = _evaluate(compiled, instance(tls=True), {"a": [{"metadata": {"name": "x"}}]})
    assert isinstance(included["b"], Desired)


def test_include_when_waits_for_other_resource() -> None:
    condition = "  includeWhen: ['${server.status.readyReplicas > 1}']\n"
    compiled = graph(_DEPLOYMENT + _config_map("extra", head=condition))
    server: dict[str, Any] = {"spec": {"replicas": 1}}
    pending = _evaluate(compiled, instance(), {})["extra"]
    assert pending == DataPending("server is not ready: object not found", "${server.status.readyReplicas > 1}", ("server",))
    pending_field = _evaluate(compiled, instance(), {"server": [{**server, "status": {"availableReplicas": 1}}]})["extra"]
    assert isinstance(pending_field, DataPending)
    assert pending_field.reason == "waiting for server.status.readyReplicas"
    few = {**server, "status": {"availableReplicas": 1, "readyReplicas": 1}}
    assert isinstance(_evaluate(compiled, instance(), {"server": [few]})["extra"], Excluded)


def test_depends_on_orders_resources() -> None:
    compiled = graph(_config_map("a", head="  dependsOn: [b]\n") + _config_map("b"))
    assert compiled.order == ("b", "a")
    assert compiled.node("a").dependencies == ("b",)
    assert isinstance(_evaluate(compiled, instance(), {})["a"], DataPending)


_FOR_EACH = """\
- id: sites
  forEach:
  - region: ${schema.spec.regions}
  - size: ${[1, 2]}
  readyWhen: ["${each.data.up == 'yes'}"]
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: ${schema.metadata.name}-${region}-${string(size)}
    data: {region: "${region}", both: "${region + string(size)}", title: "${schema.spec.title}"}
- id: summary
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: summary}
    data: {names: "${sites.map(s, s.metadata.name).join(' ')}"}
"""


def test_collection_is_cartesian_product() -> None:
    compiled = graph(_FOR_EACH)
    evaluation = Evaluation(compiled, instance(regions=["eu", "us"]))
    sites, summary = compiled.nodes
    desired = evaluation.resolve(sites)
    assert isinstance(desired, Desired)
    names = ["home-eu-1", "home-eu-2", "home-us-1", "home-us-2"]
    assert [obj["metadata"]["name"] for obj in desired.objects] == names
    assert desired.objects[1]["data"] == {"region": "eu", "both": "eu2", "title": "hello"}
    evaluation.observe("sites", desired.objects[:3])
    assert evaluation.readiness(sites) == DataPending("3 of 4 objects exist", on=("sites",))
    evaluation.observe("sites", desired.objects[::-1])
    pending = evaluation.readiness(sites)
    assert pending is not None
    assert pending.reason == "waiting for each.data.up"
    evaluation.observe("sites", [{**obj, "data": {"up": "yes"}} for obj in desired.objects[::-1]])
    assert evaluation.readiness(sites) is None
    outcome = evaluation.resolve(summary)
    assert isinstance(outcome, Desired)
    assert outcome.objects[0]["data"] == {"names": " ".join(names)}


@pytest.mark.parametrize("regions", [{}, {"regions": []}])
def test_empty_collection_is_ready(regions: dict[str, Any]) -> None:
    compiled = graph(_FOR_EACH)
    evaluation = Evaluation(compiled, instance(**regions))
    sites, summary = compiled.nodes
    assert evaluation.resolve(sites) == Desired(())
    evaluation.observe("sites", [])
    assert evaluation.readiness(sites) is None
    outcome = evaluation.resolve(summary)
    assert isinstance(outcome, Desired)
    assert outcome.objects[0]["data"] == {"names": ""}


def test_collection_rejects_too_many_and_duplicate_objects() -> None:
    compiled = graph(_FOR_EACH)
    with pytest.raises(EvaluationFailed, match="forEach: must return at most 1000 objects, got 1002"):
        _first(compiled, regions=[f"r{index}" for index in range(501)])
    with pytest.raises(EvaluationFailed, match="forEach returns a duplicate ConfigMap home-eu-1"):
        _first(compiled, regions=["eu", "eu"])


def test_external_references_resolve_to_lookups() -> None:
    compiled = graph("""\
- id: shared
  externalRef:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: "${schema.spec.title}-settings"}
- id: peers
  externalRef:
    apiVersion: v1
    kind: ConfigMap
    metadata:
      selector: {matchLabels: {site: "${schema.metadata.name}"}}
- id: copy
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: copy}
    data: {key: "${shared.data.key}", peers: "${string(peers.size())}"}
""")
    evaluation = Evaluation(compiled, instance())
    shared, peers, copy = compiled.nodes
    assert evaluation.resolve(shared) == Lookup("web", "hello-settings")
    assert evaluation.resolve(peers) == Lookup("", selector={"matchLabels": {"site": "home"}})
    evaluation.observe("shared", [])
    assert evaluation.readiness(shared) == DataPending("hello-settings not found", on=("shared",))
    evaluation.observe("peers", [{"metadata": {"name": "p"}}])
    evaluation.observe("shared", [{"data": {}}])
    assert evaluation.readiness(shared) is None
    assert evaluation.resolve(copy) == DataPending("waiting for shared.data.key", "${shared.data.key}", ("shared",))
    evaluation.observe("shared", [{"data": {"key": "value"}}])
    outcome = evaluation.resolve(copy)
    assert isinstance(outcome, Desired)
    assert outcome.objects[0]["data"] == {"key": "value", "peers": "1"}


_STATUS = """\
spec: {title: string, replicas: integer, tls: boolean}
status:
  title: ${schema.spec.title}
  available: ${server.status.availableReplicas}
  nested: {address: "http://${server.metadata.name}.${server.metadata.namespace}"}
  broken: ${string(server.spec.replicas / 0)}
  conditions:
  - '${runtime.newCondition({type: "Served", status: server.status.availableReplicas > 0 ? "True" : "False", reason: "Counted"})}'
  - '${runtime.newCondition({type: "Fine", status: runtime.condition(schema, "Ready").status})}'
"""


def test_status_contains_available_fields() -> None:
    compiled = graph(_DEPLOYMENT.replace("${schema.spec.?owner}", "x"), _STATUS)
    evaluation = Evaluation(compiled, instance())
    before = evaluation.status()
    assert before.values == {"title": "hello"}
    missing = [
        "waiting for server.status.availableReplicas",
        "waiting for server.metadata.name",
        "waiting for server.spec.replicas",
    ]
    assert [pending.reason for pending in before.pending] == missing
    server = {"metadata": {"name": "home", "namespace": "web"}, "spec": {"replicas": 1}, "status": {"availableReplicas": 1}}
    evaluation.resolve(compiled.nodes[0])
    evaluation.observe("server", [server])
    after = evaluation.status()
    assert after.values == {"title": "hello", "available": 1, "nested": {"address": "http://home.web"}}
    assert not after.pending
    assert [str(failure) for failure in after.failures] == ["rgd.yaml:13: ${string(server.spec.replicas / 0)}: division by zero"]


def test_author_conditions() -> None:
    compiled = graph(_DEPLOYMENT.replace("${schema.spec.?owner}", "x"), _STATUS)
    evaluation = Evaluation(compiled, instance())
    ready = [{"type": "Ready", "status": "Unknown", "reason": "r"}]
    before = evaluation.conditions(ready)
    assert before.items == (Condition("Fine", "Unknown"),)
    assert not before.complete
    evaluation.observe("server", [{"status": {"availableReplicas": 0}}])
    after = evaluation.conditions(ready)
    assert after.items == (Condition("Served", "False", "Counted"), Condition("Fine", "Unknown"))
    assert after.complete


def test_server_set_metadata_is_pending_offline() -> None:
    compiled = graph(_config_map("config", "{a: '${schema.metadata.uid}'}"))
    offline = instance()
    del offline["metadata"]["uid"]
    assert Evaluation(compiled, offline).resolve(compiled.nodes[0]) == DataPending(
        "waiting for schema.metadata.uid", "${schema.metadata.uid}", ("schema",)
    )


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_observation_order_does_not_matter(data: st.DataObject) -> None:
    """The desired objects do not depend on the order in which objects are observed."""
    needs = [data.draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set() for index in range(7)]
    fields = [
        {f"k{near}": f"${{c{near}.data.own}}" for near in required} | {"own": f"v{index}"} for index, required in enumerate(needs)
    ]
    compiled = graph("".join(_config_map(f"c{index}", repr(values)) for index, values in enumerate(fields)))
    evaluation = Evaluation(compiled, instance())
    done: set[str] = set()
    while len(done) < len(needs):
        node = data.draw(st.sampled_from([node for node in compiled.nodes if node.id not in done]))
        outcome = evaluation.resolve(node)
        ready = all(name in done for name in node.dependencies)
        assert isinstance(outcome, Desired if ready else DataPending)
        if isinstance(outcome, Desired):
            evaluation.observe(node.id, outcome.objects)
            done.add(node.id)
    for index, node in enumerate(sorted(compiled.nodes, key=lambda node: node.index)):
        assert _objects(evaluation, node)[0]["data"] == {f"k{near}": f"v{near}" for near in needs[index]} | {"own": f"v{index}"}
