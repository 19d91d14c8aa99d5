"""A graph and one instance: what each resource should be, what it waits for, what is absent, and what is a mistake."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.reading import graph, instance

from sliceworks.graph.errors import EvaluationFailed
from sliceworks.graph.evaluate import Evaluation, evaluate
from sliceworks.graph.model import Condition, Desired, Excluded, Graph, Lookup, Node, Waiting


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


def _objects(evaluation: Evaluation, node: Node) -> tuple[dict[str, Any], ...]:
    outcome = evaluation.resolve(node)
    assert isinstance(outcome, Desired)
    return outcome.objects


def _data(compiled: Graph, **spec: Any) -> Any:
    outcome = _first(compiled, **spec)
    assert isinstance(outcome, Desired)
    return outcome.objects[0].get("data")


def test_a_template_is_filled_in() -> None:
    outcome = _first(graph(_DEPLOYMENT), replicas=3, owner="ann")
    assert isinstance(outcome, Desired)
    made = outcome.objects[0]
    assert made["metadata"] == {"name": "home", "namespace": "web"}
    assert made["spec"]["replicas"] == 3
    assert made["spec"]["template"]["spec"]["containers"][0]["args"] == ["--title=hello", "ann"]


def test_every_object_is_new() -> None:
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
        ("{a: '${schema.spec.?owner.orValue(\"nobody\")}'}", {"a": "nobody"}),
        ("{a: '${has(schema.spec.owner) ? schema.spec.owner : omit()}', b: c}", {"b": "c"}),
        ("{a: '${schema.spec.tls ? \"yes\" : omit()}'}", {}),
    ],
)
def test_what_the_user_left_out_is_absent(data: str, expected: dict[str, str]) -> None:
    assert _data(graph(_config_map("config", data))) == expected


@pytest.mark.parametrize(
    ("data", "reason", "hint"),
    [
        (
            "{a: '${schema.spec.owner + \"!\"}'}",
            '${schema.spec.owner + "!"}: schema.spec.owner is not there',
            "set it, give it a default, or write schema.spec.?owner.orValue(…)",
        ),
        ("{a: 'by ${schema.spec.owner}'}", "by ${schema.spec.owner}: schema.spec.owner is not there", "set it"),
        ("{a: '${string(schema.spec.replicas / 0)}'}", "${string(schema.spec.replicas / 0)}: division by zero", ""),
        ("{a: '${schema.spec.regions[3] + \"\"}'}", "schema.spec.regions[3] is not there", "set"),
    ],
)
def test_a_mistake_names_its_place_and_what_to_do(data: str, reason: str, hint: str) -> None:
    with pytest.raises(EvaluationFailed) as failed:
        _first(graph(_config_map("config", data)), regions=["eu"])
    assert str(failed.value).startswith("rgd.yaml:21: ")
    assert reason in str(failed.value)
    assert failed.value.hint.startswith(hint)
    assert failed.value.path == ("spec", "resources", 0, "template", "data", "a")


def test_a_name_cannot_be_absent() -> None:
    with pytest.raises(EvaluationFailed, match="the ConfigMap has no name"):
        _first(graph(_config_map("config").replace("${schema.metadata.name}-config", "${schema.spec.owner}")))


def test_a_resource_waits_for_what_another_has_not_got_yet() -> None:
    compiled = graph(
        _DEPLOYMENT + _config_map("config", "{a: '${server.metadata.name}', b: '${string(server.status.readyReplicas)}'}")
    )
    server, config = compiled.nodes
    evaluation = Evaluation(compiled, instance())
    made = evaluation.resolve(server)
    assert isinstance(made, Desired)
    assert evaluation.readiness(server) == Waiting("it does not exist yet", on=("server",))
    assert evaluation.resolve(config) == Waiting("server is not ready: it does not exist yet", on=("server",))

    evaluation.observe("server", [made.objects[0]])
    ready = compiled.node("server").ready_when[0].written
    assert evaluation.readiness(server) == Waiting("waiting for server.status.availableReplicas", ready, ("server",))

    evaluation.observe("server", [{**made.objects[0], "status": {"availableReplicas": 0}}])
    assert evaluation.readiness(server) == Waiting(f"{ready} is not true yet", ready, ("server",))

    evaluation.observe("server", [{**made.objects[0], "status": {"availableReplicas": 1}}])
    assert evaluation.readiness(server) is None
    assert evaluation.resolve(config) == Waiting(
        "waiting for server.status.readyReplicas", "${string(server.status.readyReplicas)}", ("server",)
    )

    evaluation.observe("server", [{**made.objects[0], "status": {"availableReplicas": 1, "readyReplicas": 1}}])
    outcome = evaluation.resolve(config)
    assert isinstance(outcome, Desired)
    assert outcome.objects[0]["data"] == {"a": "home", "b": "1"}


def test_one_pass_goes_as_deep_as_the_objects_allow() -> None:
    chain = "".join(
        _config_map(f"c{index}", "{a: b}" if not index else f"{{a: '${{c{index - 1}.metadata.name}}'}}") for index in range(300)
    )
    compiled = graph(chain)
    evaluation = Evaluation(compiled, instance())
    for node in compiled.nodes:
        evaluation.observe(node.id, _objects(evaluation, node))
    assert _objects(evaluation, compiled.nodes[-1])[0]["data"] == {"a": "home-c298"}


def test_what_waits_is_asked_again_when_something_was_observed() -> None:
    compiled = graph(_config_map("a", "{x: y}") + _config_map("b", "{x: '${a.data.x}'}") + _config_map("c", "{x: '${b.data.x}'}"))
    evaluation = Evaluation(compiled, instance())
    a, b, c = compiled.nodes
    assert evaluation.resolve(c) == Waiting("a is not ready: it does not exist yet", on=("b",))
    evaluation.observe("a", _objects(evaluation, a))
    assert isinstance(evaluation.resolve(b), Desired)
    evaluation.observe("b", _objects(evaluation, b))
    assert isinstance(evaluation.resolve(c), Desired)


def test_what_depends_on_a_mistake_waits() -> None:
    compiled = graph(_config_map("a", "{x: '${string(1 / 0)}'}") + _config_map("b", "{x: '${a.data.x}'}") + _config_map("c"))
    evaluation = Evaluation(compiled, instance())
    a, b, c = compiled.nodes
    for _ in range(2):
        with pytest.raises(EvaluationFailed):
            evaluation.resolve(a)
    assert evaluation.resolve(b) == Waiting("a failed: division by zero", "${string(1 / 0)}", ("a",))
    assert isinstance(evaluation.resolve(c), Desired)


def test_a_condition_leaves_a_resource_out_and_all_that_need_it() -> None:
    condition = "  includeWhen: ['${schema.spec.tls}']\n"
    compiled = graph(_config_map("a", head=condition) + _config_map("b", "{x: '${a.metadata.name}'}") + _config_map("c"))
    left_out = evaluate(compiled, instance(tls=False), {})
    assert left_out["a"] == Excluded("${schema.spec.tls}")
    assert left_out["b"] == Excluded(because="a")
    assert isinstance(left_out["c"], Desired)
    wanted = evaluate(compiled, instance(tls=True), {"a": [{"metadata": {"name": "x"}}]})
    assert isinstance(wanted["b"], Desired)


def test_a_condition_on_another_resource_waits_for_it() -> None:
    condition = "  includeWhen: ['${server.status.readyReplicas > 1}']\n"
    compiled = graph(_DEPLOYMENT + _config_map("extra", head=condition))
    server: dict[str, Any] = {"spec": {"replicas": 1}}
    waiting = evaluate(compiled, instance(), {})["extra"]
    assert waiting == Waiting("server is not ready: it does not exist yet", "${server.status.readyReplicas > 1}", ("server",))
    not_yet = evaluate(compiled, instance(), {"server": [{**server, "status": {"availableReplicas": 1}}]})["extra"]
    assert isinstance(not_yet, Waiting)
    assert not_yet.reason == "waiting for server.status.readyReplicas"
    few = {**server, "status": {"availableReplicas": 1, "readyReplicas": 1}}
    assert isinstance(evaluate(compiled, instance(), {"server": [few]})["extra"], Excluded)


def test_depends_on_orders_resources_that_do_not_refer_to_one_another() -> None:
    compiled = graph(_config_map("a", head="  dependsOn: [b]\n") + _config_map("b"))
    assert compiled.order == ("b", "a")
    assert compiled.node("a").dependencies == ("b",)
    assert isinstance(evaluate(compiled, instance(), {})["a"], Waiting)


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


def test_a_collection_is_every_combination() -> None:
    compiled = graph(_FOR_EACH)
    evaluation = Evaluation(compiled, instance(regions=["eu", "us"]))
    sites, summary = compiled.nodes
    made = evaluation.resolve(sites)
    assert isinstance(made, Desired)
    names = ["home-eu-1", "home-eu-2", "home-us-1", "home-us-2"]
    assert [one["metadata"]["name"] for one in made.objects] == names
    assert made.objects[1]["data"] == {"region": "eu", "both": "eu2", "title": "hello"}
    evaluation.observe("sites", made.objects[:3])
    assert evaluation.readiness(sites) == Waiting("3 of 4 objects exist", on=("sites",))
    evaluation.observe("sites", made.objects[::-1])
    waiting = evaluation.readiness(sites)
    assert waiting is not None
    assert waiting.reason == "waiting for each.data.up"
    evaluation.observe("sites", [{**one, "data": {"up": "yes"}} for one in made.objects[::-1]])
    assert evaluation.readiness(sites) is None
    outcome = evaluation.resolve(summary)
    assert isinstance(outcome, Desired)
    assert outcome.objects[0]["data"] == {"names": " ".join(names)}


@pytest.mark.parametrize("regions", [{}, {"regions": []}])
def test_an_empty_collection_is_ready(regions: dict[str, Any]) -> None:
    compiled = graph(_FOR_EACH)
    evaluation = Evaluation(compiled, instance(**regions))
    sites, summary = compiled.nodes
    assert evaluation.resolve(sites) == Desired(())
    evaluation.observe("sites", [])
    assert evaluation.readiness(sites) is None
    outcome = evaluation.resolve(summary)
    assert isinstance(outcome, Desired)
    assert outcome.objects[0]["data"] == {"names": ""}


def test_a_collection_has_its_limits() -> None:
    compiled = graph(_FOR_EACH)
    with pytest.raises(EvaluationFailed, match="forEach makes 1002 objects; 1000 is the most"):
        _first(compiled, regions=[f"r{index}" for index in range(501)])
    with pytest.raises(EvaluationFailed, match="forEach makes ConfigMap home-eu-1 more than once"):
        _first(compiled, regions=["eu", "eu"])


def test_external_objects_are_looked_up() -> None:
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
    assert evaluation.readiness(shared) == Waiting("hello-settings does not exist", on=("shared",))
    evaluation.observe("peers", [{"metadata": {"name": "p"}}])
    evaluation.observe("shared", [{"data": {}}])
    assert evaluation.readiness(shared) is None
    assert evaluation.resolve(copy) == Waiting("waiting for shared.data.key", "${shared.data.key}", ("shared",))
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


def test_a_status_says_what_is_known_now() -> None:
    compiled = graph(_DEPLOYMENT.replace("${schema.spec.?owner}", "x"), _STATUS)
    evaluation = Evaluation(compiled, instance())
    before = evaluation.status()
    assert before.values == {"title": "hello"}
    missing = [
        "waiting for server.status.availableReplicas",
        "waiting for server.metadata.name",
        "waiting for server.spec.replicas",
    ]
    assert [waiting.reason for waiting in before.waiting] == missing
    server = {"metadata": {"name": "home", "namespace": "web"}, "spec": {"replicas": 1}, "status": {"availableReplicas": 1}}
    evaluation.resolve(compiled.nodes[0])
    evaluation.observe("server", [server])
    after = evaluation.status()
    assert after.values == {"title": "hello", "available": 1, "nested": {"address": "http://home.web"}}
    assert not after.waiting
    assert [str(failure) for failure in after.failures] == ["rgd.yaml:13: ${string(server.spec.replicas / 0)}: division by zero"]


def test_authors_compute_conditions() -> None:
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


def test_what_only_the_server_knows_is_waited_for_before_the_instance_exists() -> None:
    compiled = graph(_config_map("config", "{a: '${schema.metadata.uid}'}"))
    offline = instance()
    del offline["metadata"]["uid"]
    assert Evaluation(compiled, offline).resolve(compiled.nodes[0]) == Waiting(
        "waiting for schema.metadata.uid", "${schema.metadata.uid}", ("schema",)
    )


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_order_of_observations_leads_to_the_same_objects(data: st.DataObject) -> None:
    """However the objects of a graph come to be known, what is desired in the end is what one pass in order would give."""
    needs = [data.draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set() for index in range(7)]
    texts = [{f"k{one}": f"${{c{one}.data.own}}" for one in needed} | {"own": f"v{index}"} for index, needed in enumerate(needs)]
    compiled = graph("".join(_config_map(f"c{index}", repr(one)) for index, one in enumerate(texts)))
    evaluation = Evaluation(compiled, instance())
    done: set[str] = set()
    while len(done) < len(needs):
        node = data.draw(st.sampled_from([one for one in compiled.nodes if one.id not in done]))
        outcome = evaluation.resolve(node)
        ready = all(name in done for name in node.dependencies)
        assert isinstance(outcome, Desired if ready else Waiting)
        if isinstance(outcome, Desired):
            evaluation.observe(node.id, outcome.objects)
            done.add(node.id)
    for index, node in enumerate(sorted(compiled.nodes, key=lambda one: one.index)):
        assert _objects(evaluation, node)[0]["data"] == {f"k{one}": f"v{one}" for one in needs[index]} | {"own": f"v{index}"}
