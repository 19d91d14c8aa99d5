"""`sliceworks graph`: its output for graphs and instances, and its errors."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import orjson
import pytest
import yaml
from tests.support import golden_text
from tests.support.graph_controller import GRAPHS, GraphHarness, run_with_controller

from sliceworks.cli import graph_diff, main
from sliceworks.graph import definition_parser
from sliceworks.graph.builder import build_graph
from sliceworks.graph.kinds import BuiltinKinds
from sliceworks.kube.client import Client

ROOT = Path(__file__).parents[2]
EXAMPLE = "examples/graphs/gemma-on-tpu"
DEFINITION, INSTANCE, WRITTEN = f"{EXAMPLE}/definition.yaml", f"{EXAMPLE}/instance.yaml", f"{EXAMPLE}/as-written"
GRAPH = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shops}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    spec: {colours: '[]string | default=["red"]', open: boolean | default=true, size: integer | default=2}
  resources:
  - id: settings
    template:
      {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {size: "${string(schema.spec.size)}"}}
  - id: notes
    forEach: [{colour: "${schema.spec.colours}"}]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-${colour}"}}
  - id: service
    includeWhen: ["${schema.spec.open}"]
    template: {apiVersion: v1, kind: Service, metadata: {name: "${settings.metadata.name}"}, spec: {ports: [{port: 80}]}}
  - id: last
    includeWhen: ['${service.spec.clusterIP != ""}']
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {ip: "${service.spec.clusterIP}"}}
"""
SHOP = "apiVersion: kro.run/v1alpha1\nkind: Shop\nmetadata: {name: corner, namespace: town}\nspec: {}\n"


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main.run(["graph", *arguments]) == code
    return capsys.readouterr()


def files(folder: Path, **contents: str) -> list[str]:
    for name, text in contents.items():
        (folder / f"{name}.yaml").write_text(text)
    return [str(folder / f"{name}.yaml") for name in contents]


@pytest.mark.parametrize(
    ("golden", "arguments"),
    [
        ("graph-check", ["check", DEFINITION, INSTANCE]),
        ("graph-render", ["render", DEFINITION, INSTANCE]),
        ("graph-render-with-objects", ["render", DEFINITION, INSTANCE, "--objects", f"{EXAMPLE}/day/10-administrator.yaml"]),
        ("graph-render-table", ["render", DEFINITION, INSTANCE, "-o", "table"]),
        ("graph-render-name", ["render", DEFINITION, INSTANCE, "-o", "name"]),
        ("graph-diff", ["diff", DEFINITION, INSTANCE, "--from-rgd", f"{WRITTEN}/rgd.yaml"]),
        ("graph-diff-yaml", ["diff", DEFINITION, INSTANCE, "--from-rgd", f"{WRITTEN}/rgd.yaml", "-o", "yaml"]),
        ("graph-diagram-mermaid", ["diagram", DEFINITION, "-o", "mermaid"]),
        ("graph-diagram-svg", ["diagram", DEFINITION]),
    ],
)
def test_output_matches_golden(golden: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    golden_text.check(golden, run(capsys, *arguments)[0])


def test_graph_in_original_form(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "check", WRITTEN, code=1)
    old = "externalRef with name and namespace outside metadata is deprecated; write metadata: {name: …, namespace: …}"
    assert err.splitlines() == [
        f"error: {WRITTEN}/instance.yaml:7: unknown field spec.kaggelSecret; did you mean kaggleSecret?",
        f"warning: {WRITTEN}/rgd.yaml:7: apiVersion: kro.run/v1alpha1 is deprecated; write apiVersion: v1alpha1",
        f"warning: {WRITTEN}/rgd.yaml:20: {old}",
    ]
    assert "wrong" in out
    result = orjson.loads(run(capsys, "check", WRITTEN, "-o", "json", code=1)[0])
    assert [item["good"] for item in result] == [False, True]
    assert result[0]["issues"][0]["remedy"] == "did you mean kaggleSecret?"
    assert len(result[1]["warnings"]) == 2
    assert result[1]["order"][0] == "project"


def test_invalid_instance_is_not_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = run(capsys, "render", f"{WRITTEN}/rgd.yaml", f"{WRITTEN}/instance.yaml", code=1)
    assert err == (f"error: {WRITTEN}/instance.yaml:7: unknown field spec.kaggelSecret\nhint: did you mean kaggleSecret?\n")


def test_every_error_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = GRAPH.replace("schema.spec.size", "schema.spec.sice").replace("kind: Service", "kind: Servise")
    _, err = run(capsys, "check", *files(tmp_path, graph=wrong), code=1)
    lines = [line.removeprefix(f"error: {tmp_path}/") for line in err.splitlines()]
    for place, *words in (
        ("graph.yaml:13: ", "unknown field sice", "${string(schema.spec.sice)}", "did you mean size?"),
        ("graph.yaml:19: ", "unknown kind Servise in v1", "did you mean Service?"),
    ):
        assert any(line.startswith(place) and all(word in line for word in words) for line in lines), err


def test_states_of_resources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, shop, closed = files(
        tmp_path, graph=GRAPH, shop=SHOP, closed=SHOP.replace("spec: {}", "spec: {open: false, colours: [red, blue]}")
    )
    result = {item["resource"]: item for item in orjson.loads(run(capsys, "render", graph, shop, "-o", "json")[0])}
    assert result["settings"]["objects"][0]["data"] == {"size": "2"}
    assert [obj["metadata"]["name"] for obj in result["notes"]["objects"]] == ["corner-red"]
    assert (result["last"]["state"], result["last"]["because"]) == ("unresolved", 'only if ${service.spec.clusterIP != ""}')
    assert result["last"]["unknown"] == ["${service.spec.clusterIP}"]
    result = {item["resource"]: item for item in orjson.loads(run(capsys, "render", graph, closed, "-o", "json")[0])}
    assert (result["service"]["state"], result["service"]["because"]) == ("excluded", "${schema.spec.open}")
    assert (result["last"]["state"], result["last"]["because"]) == ("excluded", "service is excluded")
    assert len(result["notes"]["objects"]) == 2
    text, _ = run(capsys, "render", graph, closed)
    assert "# service: excluded, ${schema.spec.open}\n" in text


def test_change_that_breaks_the_schema_is_refused_as_in_diff() -> None:
    changed = GRAPH.replace("integer | default=2", "integer | default=2 maximum=3")
    compiled = build_graph(definition_parser.parse(yaml.safe_load(changed)), BuiltinKinds())
    spec = {"open": False, "size": 2, "colours": []}
    shop = {**yaml.safe_load(SHOP), "metadata": {"name": "corner", "namespace": "default"}, "spec": spec}

    async def main(harness: GraphHarness) -> None:
        await harness.apply(GRAPH)
        client = Client(harness.twin.cluster.transport(), namespace="default")
        message = (
            "cannot update CRD shops.kro.run: breaking changes detected: Maximum constraint 3 was added; "
            "to allow the change, annotate the definition with kro.run/allow-breaking-changes=true"
        )
        difference = (await graph_diff.diff_cluster(client, compiled, shop))[0]
        assert (difference.action, difference.reason) == ("refuse", message)
        await harness.apply(changed)
        assert (await harness.condition(f"{GRAPHS}/shops", "Ready"))["message"] == message

    run_with_controller(main)


def test_diff_of_two_instances(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = SHOP.replace("spec: {}", "spec: {size: 5, open: false, colours: [blue, green]}")
    graph, shop, other = files(tmp_path, graph=GRAPH, shop=SHOP, other=changed)
    out, err = run(capsys, "diff", graph, other, "--from-instance", shop)
    assert out.splitlines() == [
        "~ change ConfigMap town/corner  [settings]",
        "    data.size: 2 → 5",
        "+ create ConfigMap town/corner-blue  [notes]",
        "+ create ConfigMap town/corner-green  [notes]",
        "- delete ConfigMap town/corner-red  [notes]",
        "- delete Service town/corner  [service]",
        "- delete ConfigMap town/last  [last]",
    ]
    assert err == "2 to create, 1 to change, 3 to delete.\n"
    run(capsys, "diff", graph, other, "--from-instance", shop, "--exit-code", code=1)
    assert run(capsys, "diff", graph, shop, "--from-instance", shop, "--exit-code") == ("", "No changes.\n")


def test_kinds_from_crd_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uses = GRAPH.replace("kind: Service, metadata: {name", "kind: Box, metadata: {name").replace(
        "{apiVersion: v1, kind: Box", "{apiVersion: example.com/v1, kind: Box"
    )
    definition = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Box, plural: boxes}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              clusterIP: {type: string}
              ports: {type: array, items: {type: object, properties: {port: {type: integer}}}}
"""
    graph, box = files(tmp_path, graph=uses, box=definition)
    _, err = run(capsys, "check", graph, code=1)
    assert "unknown kind Box in example.com/v1" in err
    run(capsys, "check", graph, "--crds", box)
    _, err = run(capsys, "check", graph, "--crds", graph, code=1)
    assert "contains no CustomResourceDefinition" in err


def test_graph_uses_kind_of_another_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    street = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: streets}
spec:
  schema: {apiVersion: v1alpha1, kind: Street, spec: {name: string}}
  resources:
  - id: shop
    template: {apiVersion: kro.run/v1alpha1, kind: Shop, metadata: {name: "${schema.metadata.name}"}, spec: {size: 3}}
"""
    first, second = files(tmp_path, a_street=street, b_shop=GRAPH)
    run(capsys, "check", first, second)
    _, err = run(capsys, "check", first, code=1)
    assert "unknown kind Shop in kro.run/v1alpha1" in err


def test_folders_are_searched_recursively(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("shops/deep", ".hidden"):
        (tmp_path / folder).mkdir(parents=True)
    files(tmp_path / "shops" / "deep", graph=GRAPH)
    files(tmp_path / "shops", shop=SHOP)
    files(tmp_path / ".hidden", wrong="kind: [")
    assert run(capsys, "check", str(tmp_path), "-o", "name")[0].splitlines() == ["ResourceGraphDefinition/shops", "Shop/corner"]


def test_unsuitable_files_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, shop = files(tmp_path, graph=GRAPH, shop=SHOP)
    assert "contains no ResourceGraphDefinition" in run(capsys, "render", shop, graph, code=1)[1]
    assert "contains no Shop of kro.run/v1alpha1" in run(capsys, "render", graph, graph, code=1)[1]
    assert "no ResourceGraphDefinition found" in run(capsys, "check", shop, code=1)[1]
    _, err = run(capsys, "diff", graph, shop, "--from-rgd", graph, "--twin", code=2)
    assert "cannot be combined with a cluster" in err
    assert run(capsys, "check", str(tmp_path / "missing.yaml"), code=2)[1].startswith("error: ")


def test_gemma_ships_its_rights(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "rights", DEFINITION)[0] == Path(DEFINITION).with_name("rights.yaml").read_text()


def test_rights_of_documents_without_a_definition(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no ResourceGraphDefinition found" in run(capsys, "rights", INSTANCE, code=1)[1]


def test_diagram_is_well_formed_without_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    root = ElementTree.fromstring(run(capsys, "diagram", DEFINITION)[0])
    boxes = [
        tuple(float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        for rect in root.iter("{http://www.w3.org/2000/svg}rect")
        if "x" in rect.attrib
    ]
    assert len(boxes) == 10
    for number, (x, y, width, height) in enumerate(boxes):
        for left, top, wide, high in boxes[number + 1 :]:
            assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y
    words = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"GemmaOnTPUServer", "downloadCheckpoint", "StorageBucket · retained"} <= set(words)
