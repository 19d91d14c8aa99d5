"""Invalid definitions are rejected with file and line, the expression, and a hint."""

from __future__ import annotations

from typing import Any

import pytest
from tests.graph.definitions import KINDS, definition, issues_for, issues_of

from sliceworks.base import yaml_documents
from sliceworks.graph import definition_parser
from sliceworks.graph.builder import build_graph
from sliceworks.graph.model import DefinitionError

_CONFIG = """\
- id: config
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: ${schema.metadata.name}
"""


def _config(line: str) -> str:
    """A ConfigMap with `line` appended as line 21 of the file."""
    return _CONFIG + f"    {line}\n"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (
            _CONFIG.replace("id: config", "id: my-config"),
            "rgd.yaml:15: id my-config must be lowerCamelCase; write myConfig",
        ),
        (_CONFIG.replace("id: config", "id: status"), "rgd.yaml:15: id status is a reserved word; choose another name"),
        (_CONFIG + _CONFIG, "rgd.yaml:21: duplicate id config; ids must be unique"),
        (_CONFIG.replace("ConfigMap", "ConfMap"), "rgd.yaml:18: unknown kind ConfMap in v1; did you mean ConfigMap?"),
        (
            _CONFIG.replace("v1\n", "v2\n"),
            "rgd.yaml:18: unknown kind ConfigMap in v2; ConfigMap exists in v1",
        ),
        (
            _CONFIG.replace("v1\n", "kro.run/v1alpha1\n").replace("ConfigMap", "NetworkStack"),
            "rgd.yaml:18: unknown kind NetworkStack in kro.run/v1alpha1; install its CustomResourceDefinition first",
        ),
        (_config("dta: {a: b}"), "rgd.yaml:21: unknown field dta; did you mean data?"),
        (_config("data: {port: 80}"), "rgd.yaml:21: data.port: must be a string, got 80"),
        (_config("data: [a]"), "rgd.yaml:21: data: must be an object, got a list"),
        (_config('immutable: "yes"'), 'rgd.yaml:21: immutable: must be true or false, got "yes"'),
        (
            _config("immutable: ${schema.spec.title}"),
            "rgd.yaml:21: ${schema.spec.title}: immutable: must return boolean, got string",
        ),
        (
            _config("data: {a: '${schema.spec.replicas}'}"),
            ("rgd.yaml:21: ${schema.spec.replicas}: data.a: must return string, got integer; use string(schema.spec.replicas)"),
        ),
        (
            _config("data: {a: 'x-${schema.spec.replicas}'}"),
            (
                "rgd.yaml:21: x-${schema.spec.replicas}: schema.spec.replicas must return string, got integer; "
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
                "the instance's own status is not available; read the resource that provides the value"
            ),
        ),
        (
            _config("data: {a: '${each.metadata.name}'}"),
            "rgd.yaml:21: ${each.metadata.name}: unknown name each; each is available in readyWhen of a resource with forEach only",
        ),
        (
            _config("data: {a: '${outer(${inner})}'}"),
            ('rgd.yaml:21: ${outer(${inner})}: nested expressions must be quoted; such as ${outer("${inner}")}'),
        ),
        (_config("data: {a: '${}'}"), "rgd.yaml:21: ${}: the expression is empty"),
        (
            _config("data: {a: '${config.metadata.name}'}"),
            "rgd.yaml:21: ${config.metadata.name}: config must not refer to itself",
        ),
        (
            _CONFIG.replace("metadata:\n      name: ${schema.metadata.name}", "data: {}"),
            "rgd.yaml:16: template has no metadata",
        ),
        (
            _CONFIG.replace("ConfigMap", "Namespace") + "      namespace: web\n",
            "rgd.yaml:21: config: Namespace is cluster-scoped and must not have a namespace; remove metadata.namespace",
        ),
        (
            _CONFIG + "      labels: {kro.run/owned: 'true'}\n",
            "rgd.yaml:21: labels with the prefix kro.run/ are reserved; choose another prefix",
        ),
        (
            _CONFIG.replace("${schema.metadata.name}", "\"${schema.spec.tls ? 'a' : omit()}\""),
            "rgd.yaml:20: ${schema.spec.tls ? 'a' : omit()}: omit() is not allowed in metadata.name",
        ),
        (
            _CONFIG.replace("  template", "  includeWhen: ['${schema.spec.title}']\n  template"),
            "rgd.yaml:16: ${schema.spec.title}: includeWhen must return a boolean, got string",
        ),
        (
            _CONFIG.replace("  template", "  includeWhen: ['schema.spec.tls']\n  template"),
            "rgd.yaml:16: includeWhen must be exactly one ${…}, got 'schema.spec.tls'; write ${schema.spec.tls}",
        ),
        (
            _CONFIG.replace("  template", "  readyWhen: ['${schema.spec.tls}']\n  template"),
            "rgd.yaml:16: ${schema.spec.tls}: readyWhen must refer to config only, got schema",
        ),
        (
            _CONFIG.replace("  template", "  readyWhen: ['${config.metadata.name}']\n  template"),
            "rgd.yaml:16: ${config.metadata.name}: readyWhen must return a boolean, got string",
        ),
        (
            _config("data: {a: '${schema.spec.regions.transformList(i, r, i + 1)[0]}'}"),
            (
                "rgd.yaml:21: ${schema.spec.regions.transformList(i, r, i + 1)[0]}: data.a: must return string, "
                "got integer; use string(schema.spec.regions.transformList(i, r, i + 1)[0])"
            ),
        ),
        (
            _CONFIG.replace("  template", "  forEach: [{region: '${schema.spec.title}'}]\n  template"),
            "rgd.yaml:16: ${schema.spec.title}: forEach region must return a list, got string",
        ),
        (
            _CONFIG.replace("  template", "  forEach: [{region: '${schema.spec.regions}'}]\n  template"),
            (
                "rgd.yaml:16: iterator region must be used in metadata.name or metadata.namespace; "
                "otherwise several objects have the same name"
            ),
        ),
        (
            _CONFIG.replace("  template", "  forEach: [{a: '${schema.spec.regions}'}, {b: '${[a]}'}]\n  template").replace(
                "schema.metadata.name", "a + b"
            ),
            "rgd.yaml:16: ${[a]}: iterators must not refer to each other",
        ),
        (
            _CONFIG.replace("  template", "  forEach: [{schema: '${schema.spec.regions}'}]\n  template"),
            "rgd.yaml:16: iterator schema is a reserved word; choose another name",
        ),
        (
            _CONFIG.replace("  template", "  dependsOn: [confg]\n  template"),
            "rgd.yaml:16: dependsOn: resource confg not found; did you mean config?",
        ),
        (
            _CONFIG.replace("  template", "  lifecycle: {onDelete: keep}\n  template"),
            "rgd.yaml:16: onDelete: must be one of delete, retain, restore, got keep",
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
def test_build_rejects_invalid_resource(resources: str, expected: str) -> None:
    issues = issues_for(resources)
    assert issues
    assert issues[0].startswith(expected), issues


def test_build_names_dependency_cycle() -> None:
    first, second = (
        _CONFIG.replace("config", name).replace("schema.metadata", f"{other}.metadata") for name, other in ("ab", "ba")
    )
    assert issues_for(first + second) == ["rgd.yaml:15: graph contains a cycle: a -> b -> a; remove one of the references"]


def test_build_rejects_expressions_in_crd_spec() -> None:
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
    assert issues_for(resources) == [
        (
            "rgd.yaml:22: ${schema.spec.title}.com: expressions in a CustomResourceDefinition are allowed in metadata only; "
            "replace it by a literal"
        )
    ]


def test_build_requires_namespace_for_cluster_scoped_instances() -> None:
    assert issues_for(_CONFIG, "scope: Cluster\n") == [
        "rgd.yaml:14: config: metadata.namespace is required, because instances are cluster-scoped; set metadata.namespace"
    ]


@pytest.mark.parametrize(
    ("external", "expected"),
    [
        ("metadata: {}", "externalRef must have exactly one of name and selector in its metadata"),
        ("metadata: {name: a, selector: {}}", "externalRef must have exactly one of name and selector in its metadata"),
        ("metadata: {selector: []}", "selector: must be a LabelSelector, or one ${…} that returns it"),
        ("metadata: {selector: {matchLabel: {a: b}}}", "unknown field metadata.selector.matchLabel; did you mean matchLabels?"),
        (
            "metadata: {selector: {matchLabels: {a: '${schema.spec.replicas}'}}}",
            "metadata.selector.matchLabels.a: must return string, got integer",
        ),
        ("metadata: {name: '${schema.spec.replicas}'}", "metadata.name: must return string, got integer"),
    ],
)
def test_build_rejects_invalid_external_reference(external: str, expected: str) -> None:
    issues = issues_for(f"- id: shared\n  externalRef:\n    apiVersion: v1\n    kind: ConfigMap\n    {external}\n")
    assert len(issues) == 1
    assert expected in issues[0]
    assert issues[0].startswith("rgd.yaml:19: ")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("spec: {a: int}\n", "rgd.yaml:8: a: unknown type int; did you mean integer?"),
        ("spec: {a: 5}\n", "rgd.yaml:8: a: must be a type such as string, or an object"),
        ("spec: {a: string | requird=true}\n", "a: unknown marker requird; did you mean required?"),
        ("spec: {a: string | default=two words}\n", "marker words has no value; quote values that contain spaces"),
        ("spec: {a: integer | default=x}\n", "rgd.yaml:8: integer | default=x: a: default: must be an integer, got x"),
        ("spec: {a: A}\ntypes: {A: {b: B}, B: {a: '[]A'}}\n", "rgd.yaml:9: custom types contain a cycle: A -> B -> A"),
        ("status: {a: plain}\n", "rgd.yaml:8: status.a: must be an expression"),
        ("status: {a: '${1 + 1}'}\n", "rgd.yaml:8: ${1 + 1}: status.a must refer to a resource or to schema"),
        ("status: {a: '${omit()}'}\n", "omit() is allowed in template fields only"),
        ("status: {conditions: {}}\n", "status.conditions: must be a list of expressions"),
        ("status: {conditions: ['${schema.metadata.name}']}\n", "a condition must be created by runtime.newCondition(…)"),
        (
            'status:\n  conditions:\n  - \'${runtime.newCondition({type: "Up", status: "yes"})}\'\n',
            (
                'rgd.yaml:10: ${runtime.newCondition({type: "Up", status: "yes"})}: '
                "runtime.newCondition: status must be one of True, False, Unknown, got 'yes'"
            ),
        ),
        ("scope: cluster\n", "rgd.yaml:8: scope: must be one of Namespaced, Cluster, got cluster; did you mean Cluster?"),
        ("shortName: [s]\n", "rgd.yaml:8: unknown field shortName; did you mean shortNames?"),
    ],
)
def test_build_rejects_invalid_schema(schema: str, expected: str) -> None:
    issues = issues_for("", schema)
    assert len(issues) == 1
    assert expected in issues[0]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("kind: Site", "kind: site", "rgd.yaml:7: kind site must be UpperCamelCase, at most 63 letters and digits"),
        ("apiVersion: v1alpha1", "apiVersion: 1", "rgd.yaml:6: spec.schema.apiVersion: must be a string, got a number"),
        ("apiVersion: v1alpha1", "apiVersion: alpha", "rgd.yaml:6: invalid version alpha"),
        ("    kind: Site\n", "", "rgd.yaml:5: spec.schema.kind is required"),
    ],
)
def test_parse_rejects_invalid_names_and_versions(old: str, new: str, expected: str) -> None:
    issues = issues_of(definition().replace(old, new))
    assert issues
    assert issues[0].startswith(expected), issues


def test_issues_are_complete_and_in_file_order() -> None:
    issues = issues_for(
        _config("data: {a: '${schema.spec.titel}', b: 5}") + _CONFIG.replace("config", "other").replace("v1\n", "v9\n")
    )
    assert [line.split(": ")[0] for line in issues] == ["rgd.yaml:21", "rgd.yaml:21", "rgd.yaml:25"]


def test_field_with_unknown_type_is_reported_once() -> None:
    assert issues_for(_config("data: {a: '${string(schema.spec.size + 1)}'}"), "spec: {size: int}\n") == [
        "rgd.yaml:8: size: unknown type int; did you mean integer?"
    ]


def test_build_rejects_deep_nesting() -> None:
    deep: list[Any] = []
    inner = deep
    for _ in range(5000):
        inner.append([])
        inner = inner[0]
    document = yaml_documents.load_all(definition(_CONFIG), "rgd.yaml")[0].data
    document["spec"]["resources"][0]["template"]["data"] = {"a": deep}
    document["spec"]["schema"]["status"] = {"x": deep}
    with pytest.raises(DefinitionError, match="spec: nested too deeply"):
        build_graph(definition_parser.parse(document), KINDS)
