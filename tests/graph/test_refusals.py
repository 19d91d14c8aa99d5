"""What cannot work is refused when it is written: with file and line, the expression, and what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
from tests.graph.reading import KINDS, problems, refusals, text

from sliceworks.base import yamls
from sliceworks.graph import definitions
from sliceworks.graph.compile import compile as compile_graph
from sliceworks.graph.errors import DefinitionError

_CONFIG = """\
- id: config
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: ${schema.metadata.name}
"""


def _config(line: str) -> str:
    """A ConfigMap with one more line, which is line 21 of the file."""
    return _CONFIG + f"    {line}\n"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (
            _CONFIG.replace("id: config", "id: my-config"),
            "rgd.yaml:15: the id my-config must be lower camelCase; write myConfig",
        ),
        (_CONFIG.replace("id: config", "id: status"), "rgd.yaml:15: the id status is a reserved word; choose another name"),
        (_CONFIG + _CONFIG, "rgd.yaml:21: the id config is given twice; every resource needs an id of its own"),
        (_CONFIG.replace("ConfigMap", "ConfMap"), "rgd.yaml:18: unknown kind ConfMap of v1; did you mean ConfigMap?"),
        (
            _CONFIG.replace("v1\n", "v2\n"),
            "rgd.yaml:18: unknown kind ConfigMap of v2; ConfigMap is known in v1",
        ),
        (
            _CONFIG.replace("v1\n", "kro.run/v1alpha1\n").replace("ConfigMap", "NetworkStack"),
            "rgd.yaml:18: unknown kind NetworkStack of kro.run/v1alpha1; its CustomResourceDefinition must be there first",
        ),
        (_config("dta: {a: b}"), "rgd.yaml:21: unknown field dta; did you mean data?"),
        (_config("data: {port: 80}"), "rgd.yaml:21: data.port must be a text, not 80"),
        (_config("data: [a]"), "rgd.yaml:21: data must be an object, not a list"),
        (_config('immutable: "yes"'), 'rgd.yaml:21: immutable must be true or false, not "yes"'),
        (
            _config("immutable: ${schema.spec.title}"),
            "rgd.yaml:21: ${schema.spec.title}: gives string, and boolean is expected, for immutable",
        ),
        (
            _config("data: {a: '${schema.spec.replicas}'}"),
            (
                "rgd.yaml:21: ${schema.spec.replicas}: gives integer, and string is expected, for data.a; "
                "use string(schema.spec.replicas)"
            ),
        ),
        (
            _config("data: {a: 'x-${schema.spec.replicas}'}"),
            (
                "rgd.yaml:21: x-${schema.spec.replicas}: schema.spec.replicas gives integer, "
                "and inside a text only texts can stand; "
                "use string(schema.spec.replicas)"
            ),
        ),
        (
            _config("data: {a: '${schema.spec.titel}'}"),
            "rgd.yaml:21: ${schema.spec.titel}: unknown field titel; did you mean title?",
        ),
        (
            _config("data: {a: '${schma.spec.title}'}"),
            "rgd.yaml:21: ${schma.spec.title}: unknown name schma; did you mean schema?",
        ),
        (
            _config("data: {a: '${schema.spec.title.upperAsci()}'}"),
            "rgd.yaml:21: ${schema.spec.title.upperAsci()}: unknown function upperAsci; did you mean upperAscii?",
        ),
        (
            _config("data: {a: '${schema.status.ready}'}"),
            (
                "rgd.yaml:21: ${schema.status.ready}: unknown field status; "
                "an instance's own status cannot be read; read the resource it comes from"
            ),
        ),
        (
            _config("data: {a: '${each.metadata.name}'}"),
            "rgd.yaml:21: ${each.metadata.name}: unknown name each; each is known in readyWhen of a resource with forEach only",
        ),
        (
            _config("data: {a: '${outer(${inner})}'}"),
            (
                "rgd.yaml:21: ${outer(${inner})}: an expression inside an expression must stand in quotes; "
                'such as ${outer("${inner}")}'
            ),
        ),
        (_config("data: {a: '${}'}"), "rgd.yaml:21: ${}: the expression is empty"),
        (
            _config("data: {a: '${config.metadata.name}'}"),
            "rgd.yaml:21: ${config.metadata.name}: config refers to itself; self references are not allowed",
        ),
        (
            _CONFIG.replace("metadata:\n      name: ${schema.metadata.name}", "data: {}"),
            "rgd.yaml:16: the template has no metadata",
        ),
        (
            _CONFIG.replace("ConfigMap", "Namespace") + "      namespace: web\n",
            "rgd.yaml:21: Namespace is not namespaced, so config must not have a namespace; remove metadata.namespace",
        ),
        (
            _CONFIG + "      labels: {kro.run/owned: 'true'}\n",
            "rgd.yaml:21: labels that begin with kro.run/ are reserved; choose another prefix",
        ),
        (
            _CONFIG.replace("${schema.metadata.name}", "\"${schema.spec.tls ? 'a' : omit()}\""),
            "rgd.yaml:20: ${schema.spec.tls ? 'a' : omit()}: omit() cannot be used for metadata.name: every object needs it",
        ),
        (
            _CONFIG.replace("  template", "  includeWhen: ['${schema.spec.title}']\n  template"),
            "rgd.yaml:16: ${schema.spec.title}: includeWhen must give true or false, and this gives string",
        ),
        (
            _CONFIG.replace("  template", "  includeWhen: ['schema.spec.tls']\n  template"),
            "rgd.yaml:16: includeWhen must be exactly one ${…}, not 'schema.spec.tls'; write ${schema.spec.tls}",
        ),
        (
            _CONFIG.replace("  template", "  readyWhen: ['${schema.spec.tls}']\n  template"),
            "rgd.yaml:16: ${schema.spec.tls}: readyWhen may refer to config only, and this refers to schema",
        ),
        (
            _CONFIG.replace("  template", "  readyWhen: ['${config.metadata.name}']\n  template"),
            "rgd.yaml:16: ${config.metadata.name}: readyWhen must give true or false, and this gives string",
        ),
        (
            _config("data: {a: '${schema.spec.regions.transformList(i, r, i + 1)[0]}'}"),
            (
                "rgd.yaml:21: ${schema.spec.regions.transformList(i, r, i + 1)[0]}: gives integer, and string is expected, "
                "for data.a; use string(schema.spec.regions.transformList(i, r, i + 1)[0])"
            ),
        ),
        (
            _CONFIG.replace("  template", "  forEach: [{region: '${schema.spec.title}'}]\n  template"),
            "rgd.yaml:16: ${schema.spec.title}: forEach needs a list, and region is given string",
        ),
        (
            _CONFIG.replace("  template", "  forEach: [{region: '${schema.spec.regions}'}]\n  template"),
            (
                "rgd.yaml:16: the iterator region must be part of metadata.name or metadata.namespace; "
                "otherwise several objects would have the same name"
            ),
        ),
        (
            _CONFIG.replace("  template", "  forEach: [{a: '${schema.spec.regions}'}, {b: '${[a]}'}]\n  template").replace(
                "schema.metadata.name", "a + b"
            ),
            "rgd.yaml:16: ${[a]}: an iterator of forEach cannot refer to another one",
        ),
        (
            _CONFIG.replace("  template", "  forEach: [{schema: '${schema.spec.regions}'}]\n  template"),
            "rgd.yaml:16: the iterator schema is a reserved word; choose another name",
        ),
        (
            _CONFIG.replace("  template", "  dependsOn: [confg]\n  template"),
            "rgd.yaml:16: dependsOn names confg, which is no resource; did you mean config?",
        ),
        (
            _CONFIG.replace("  template", "  lifecycle: {onDelete: keep}\n  template"),
            "rgd.yaml:16: onDelete is keep, and must be one of delete, retain, restore",
        ),
        (
            _CONFIG.replace("  template", "  readyWhn: []\n  template"),
            "rgd.yaml:16: unknown field readyWhn; did you mean readyWhen?",
        ),
        (
            "- id: config\n  readyWhen: []\n",
            "rgd.yaml:15: resource config must have exactly one of template and externalRef",
        ),
    ],
)
def test_a_resource_is_refused(resources: str, expected: str) -> None:
    found = refusals(resources)
    assert found
    assert found[0].startswith(expected), found


def test_a_cycle_is_shown() -> None:
    one, two = (_CONFIG.replace("config", name).replace("schema.metadata", f"{other}.metadata") for name, other in ("ab", "ba"))
    assert refusals(one + two) == [
        "rgd.yaml:15: graph contains a cycle: a -> b -> a; break it by taking one of the references away"
    ]


def test_expressions_in_a_definition_of_resources_stand_in_its_metadata() -> None:
    resources = """\
- id: definition
  template:
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata:
      name: ${schema.spec.title}.example.com
    spec:
      group: ${schema.spec.title}.com
"""
    assert refusals(resources) == [
        (
            "rgd.yaml:22: ${schema.spec.title}.com: expressions in a CustomResourceDefinition may stand in metadata only; "
            "write the value itself"
        )
    ]


def test_a_cluster_wide_instance_gives_no_namespace() -> None:
    assert refusals(_CONFIG, "scope: Cluster\n") == [
        "rgd.yaml:14: config needs a namespace: instances have none, because the schema's scope is Cluster; add metadata.namespace"
    ]


@pytest.mark.parametrize(
    ("external", "expected"),
    [
        ("metadata: {}", "externalRef must have exactly one of name and selector in its metadata"),
        ("metadata: {name: a, selector: {}}", "externalRef must have exactly one of name and selector in its metadata"),
        ("metadata: {selector: []}", "selector must be a LabelSelector, or one ${…} that gives it"),
        ("metadata: {selector: {matchLabel: {a: b}}}", "unknown field metadata.selector.matchLabel; did you mean matchLabels?"),
        (
            "metadata: {selector: {matchLabels: {a: '${schema.spec.replicas}'}}}",
            "gives integer, and string is expected, for metadata.selector.matchLabels.a",
        ),
        ("metadata: {name: '${schema.spec.replicas}'}", "gives integer, and string is expected, for metadata.name"),
    ],
)
def test_an_external_reference_is_refused(external: str, expected: str) -> None:
    found = refusals(f"- id: shared\n  externalRef:\n    apiVersion: v1\n    kind: ConfigMap\n    {external}\n")
    assert len(found) == 1
    assert expected in found[0]
    assert found[0].startswith("rgd.yaml:19: ")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("spec: {a: int}\n", "rgd.yaml:8: a: unknown type int; did you mean integer?"),
        ("spec: {a: 5}\n", "rgd.yaml:8: a must be a type such as string, or a mapping of fields"),
        ("spec: {a: string | requird=true}\n", "a: unknown marker requird; did you mean required?"),
        ("spec: {a: string | default=two words}\n", "the marker words has no value; a value with spaces stands in quotes"),
        ("spec: {a: integer | default=x}\n", "rgd.yaml:8: integer | default=x: a: default must be a whole number, not x"),
        ("spec: {a: A}\ntypes: {A: {b: B}, B: {a: '[]A'}}\n", "rgd.yaml:9: custom types contain a cycle: A -> B -> A"),
        ("status: {a: plain}\n", "rgd.yaml:8: status.a must be an expression"),
        ("status: {a: '${1 + 1}'}\n", "rgd.yaml:8: ${1 + 1}: status.a must refer to a resource or to schema"),
        ("status: {a: '${omit()}'}\n", "omit() can be used in the fields of a template only"),
        ("status: {conditions: {}}\n", "status.conditions must be a list of expressions"),
        ("status: {conditions: ['${schema.metadata.name}']}\n", "a condition must be made by runtime.newCondition(…)"),
        (
            'status:\n  conditions:\n  - \'${runtime.newCondition({type: "Up", status: "yes"})}\'\n',
            (
                'rgd.yaml:10: ${runtime.newCondition({type: "Up", status: "yes"})}: '
                "runtime.newCondition: status must be one of True, False, Unknown, not 'yes'"
            ),
        ),
        ("scope: cluster\n", "rgd.yaml:8: scope is cluster, and must be one of Namespaced, Cluster; did you mean Cluster?"),
        ("shortName: [s]\n", "rgd.yaml:8: unknown field shortName; did you mean shortNames?"),
    ],
)
def test_a_schema_is_refused(schema: str, expected: str) -> None:
    found = refusals("", schema)
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("kind: Site", "kind: site", "rgd.yaml:7: the kind site must be UpperCamelCase, at most 63 letters and digits"),
        ("apiVersion: v1alpha1", "apiVersion: 1", "rgd.yaml:6: spec.schema.apiVersion must be a text, not a number"),
        ("apiVersion: v1alpha1", "apiVersion: alpha", "rgd.yaml:6: the version alpha is not one of Kubernetes' form"),
        ("    kind: Site\n", "", "rgd.yaml:5: spec.schema.kind is required"),
    ],
)
def test_names_and_versions_are_refused(old: str, new: str, expected: str) -> None:
    found = problems(text().replace(old, new))
    assert found
    assert found[0].startswith(expected), found


def test_everything_that_is_wrong_is_said_at_once_in_the_order_of_the_file() -> None:
    found = refusals(
        _config("data: {a: '${schema.spec.titel}', b: 5}") + _CONFIG.replace("config", "other").replace("v1\n", "v9\n")
    )
    assert [line.split(": ")[0] for line in found] == ["rgd.yaml:21", "rgd.yaml:21", "rgd.yaml:25"]


def test_a_field_whose_type_is_wrong_is_reported_once() -> None:
    assert refusals(_config("data: {a: '${string(schema.spec.size + 1)}'}"), "spec: {size: int}\n") == [
        "rgd.yaml:8: size: unknown type int; did you mean integer?"
    ]


def test_bottomless_nesting_is_refused() -> None:
    deep: list[Any] = []
    inner = deep
    for _ in range(5000):
        inner.append([])
        inner = inner[0]
    document = yamls.load_all(text(_CONFIG), "rgd.yaml")[0].data
    document["spec"]["resources"][0]["template"]["data"] = {"a": deep}
    document["spec"]["schema"]["status"] = {"x": deep}
    with pytest.raises(DefinitionError, match="the definition is nested too deeply"):
        compile_graph(definitions.read(document), KINDS)
