"""Records the results of kro's compiler for the corpus: `python -m tests.graph.record_corpus`.

The compiler is built from kro's Go module, which takes minutes the first time. It does not need a cluster: the schemas come from
this project.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tests.graph.kro_corpus import BUILT_IN, KINDS, OBSERVED, Case, cases
from tests.real.programs import PROGRAMS

from sliceworks.schemas.builtins import builtin_scheme

if TYPE_CHECKING:
    from sliceworks.graph.kinds import Kind

_LISTS = ("allOf", "anyOf", "oneOf")
_MAX_OBJECTS = 10
"""Larger collections are recorded by their size only."""


def run_compiler(corpus: list[Case]) -> list[dict[str, Any]]:
    """kro's results."""
    requests = [
        {"Definition": case.definition, "Instance": case.instance, "Observed": case.observed, "Conditions": BUILT_IN}
        for case in corpus
    ]
    with tempfile.TemporaryDirectory() as folder:
        _write_kinds(Path(folder), corpus)
        done = subprocess.run(
            ["go", "run", "./compiler", folder],
            cwd=PROGRAMS["kro"].folder,
            input=b"\n".join(orjson.dumps(resource) for resource in requests),
            stdout=subprocess.PIPE,
            check=True,
        )
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def _write_kinds(folder: Path, corpus: list[Case]) -> None:
    objects = [
        resource.get("template") or resource.get("externalRef") or {}
        for case in corpus
        for resource in case.definition["spec"]["resources"]
    ]
    named = {(str(resource.get("apiVersion")), str(resource.get("kind"))) for resource in objects}
    kinds = [kind for version, name in sorted(named) if (kind := KINDS.find(version, name)) is not None]
    for kind in kinds:
        path = folder / f"{kind.api_version.replace('/', '_')}_{kind.kind}.json"
        path.write_bytes(orjson.dumps(_inline(kind.schema.node, frozenset({kind.schema.name}))))
    (folder / "kinds.json").write_bytes(orjson.dumps([_kind_data(kind) for kind in kinds]))


def _kind_data(kind: Kind) -> dict[str, Any]:
    names = {"Group": kind.group, "Version": kind.version, "Kind": kind.kind, "Plural": kind.plural}
    return {**names, "Namespaced": kind.namespaced}


def _inline(node: Any, above: frozenset[str]) -> Any:
    """A schema with its references inlined; a recursive type becomes an untyped object."""
    reference = node.get("$ref") or (node["allOf"][0].get("$ref") if len(node.get("allOf", ())) == 1 else None)
    if reference:
        name = reference.rpartition("/")[2]
        return {"type": "object"} if name in above else _inline(builtin_scheme().node(name), above | {name})
    inlined = {key: value for key, value in node.items() if key != "go"}
    if "properties" in inlined:
        inlined["properties"] = {name: _inline(child, above) for name, child in inlined["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(inlined.get(key), dict):
            inlined[key] = _inline(inlined[key], above)
    for key in _LISTS:
        if key in inlined:
            inlined[key] = [_inline(child, above) for child in inlined[key]]
    return inlined


def recorded_part(case: Case, result: dict[str, Any]) -> dict[str, Any]:
    """The recorded part of a result: the resources t and u, and the schema for schema cases."""
    if "error" in result:
        return {"error": result["error"].splitlines()[0]}
    names = ("t", "u")
    nodes = {name: _short(node) for name, node in result["nodes"].items() if name in names}
    recorded = {"order": result["order"], "layers": result["applyOrders"], "nodes": nodes, "status": result.get("status") or {}}
    recorded["needs"] = {name: sorted(needs or ()) for name, needs in result["dependencies"].items()}
    schema = result["crd"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    if case.name.startswith("schema "):
        recorded["spec schema"] = schema["spec"]
    if case.name.startswith("status "):
        own = schema["status"]["properties"]
        recorded["status schema"] = {name: field for name, field in own.items() if name not in ("state", "conditions")}
    if "statusError" in result:
        recorded["status error"] = result["statusError"]
    if result.get("conditions"):
        recorded["conditions"] = result["conditions"]
    return recorded


def _short(node: dict[str, Any]) -> dict[str, Any]:
    if len(node.get("desired", ())) > _MAX_OBJECTS:
        return {"desired": len(node["desired"])}
    return {name: value.splitlines()[0] if name == "error" else value for name, value in node.items()}


def main() -> None:
    corpus = cases()
    results = {case.name: recorded_part(case, result) for case, result in zip(corpus, run_compiler(corpus), strict=True)}
    lines = [orjson.dumps({name: result}, option=orjson.OPT_SORT_KEYS)[1:-1] for name, result in results.items()]
    OBSERVED.write_bytes(b"{\n" + b",\n".join(lines) + b"\n}\n")


if __name__ == "__main__":
    main()
