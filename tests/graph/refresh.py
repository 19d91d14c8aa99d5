"""Asks kro's own compiler what it makes of the cases, and writes its answers down: `python -m tests.graph.refresh`.

The compiler is built from kro's Go module, which takes minutes the first time. It needs no cluster: the schemas are ours.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tests.graph.corpus import BUILT_IN, KINDS, OBSERVED, Case, cases
from tests.real.programs import PROGRAMS

from sliceworks.schemas.builtins import catalogue

if TYPE_CHECKING:
    from sliceworks.graph.kinds import Kind

_LISTS = ("allOf", "anyOf", "oneOf")
_MOST = 10
"""Collections of more objects than this are written down by their number."""


def ask(asked: list[Case]) -> list[dict[str, Any]]:
    """kro's answers."""
    requests = [
        {"Definition": one.definition, "Instance": one.instance, "Observed": one.observed, "Conditions": BUILT_IN} for one in asked
    ]
    with tempfile.TemporaryDirectory() as folder:
        _write_kinds(Path(folder), asked)
        done = subprocess.run(
            ["go", "run", "./compiler", folder],
            cwd=PROGRAMS["kro"].folder,
            input=b"\n".join(orjson.dumps(one) for one in requests),
            stdout=subprocess.PIPE,
            check=True,
        )
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def _write_kinds(folder: Path, asked: list[Case]) -> None:
    objects = [
        one.get("template") or one.get("externalRef") or {} for case in asked for one in case.definition["spec"]["resources"]
    ]
    named = {(str(one.get("apiVersion")), str(one.get("kind"))) for one in objects}
    found = [kind for version, name in sorted(named) if (kind := KINDS.find(version, name)) is not None]
    for kind in found:
        path = folder / f"{kind.api_version.replace('/', '_')}_{kind.kind}.json"
        path.write_bytes(orjson.dumps(_whole(kind.schema.node, frozenset({kind.schema.name}))))
    (folder / "kinds.json").write_bytes(orjson.dumps([_described(kind) for kind in found]))


def _described(kind: Kind) -> dict[str, Any]:
    names = {"Group": kind.group, "Version": kind.version, "Kind": kind.kind, "Plural": kind.plural}
    return {**names, "Namespaced": kind.namespaced}


def _whole(node: Any, above: frozenset[str]) -> Any:
    """A schema with all that it refers to written in place; what contains itself ends as any object."""
    reference = node.get("$ref") or (node["allOf"][0].get("$ref") if len(node.get("allOf", ())) == 1 else None)
    if reference:
        name = reference.rpartition("/")[2]
        return {"type": "object"} if name in above else _whole(catalogue().node(name), above | {name})
    made = {key: value for key, value in node.items() if key != "go"}
    if "properties" in made:
        made["properties"] = {name: _whole(child, above) for name, child in made["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(made.get(key), dict):
            made[key] = _whole(made[key], above)
    for key in _LISTS:
        if key in made:
            made[key] = [_whole(child, above) for child in made[key]]
    return made


def kept(case: Case, answer: dict[str, Any]) -> dict[str, Any]:
    """What is worth keeping of an answer: the resources that the case is about, and the schema where it is about that."""
    if "error" in answer:
        return {"error": answer["error"].splitlines()[0]}
    names = ("t", "u")
    nodes = {name: _short(node) for name, node in answer["nodes"].items() if name in names}
    found = {"order": answer["order"], "layers": answer["applyOrders"], "nodes": nodes, "status": answer.get("status") or {}}
    found["needs"] = {name: sorted(needs or ()) for name, needs in answer["dependencies"].items()}
    schema = answer["crd"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    if case.name.startswith("schema "):
        found["spec schema"] = schema["spec"]
    if case.name.startswith("status "):
        own = schema["status"]["properties"]
        found["status schema"] = {name: one for name, one in own.items() if name not in ("state", "conditions")}
    if "statusError" in answer:
        found["status error"] = answer["statusError"]
    if answer.get("conditions"):
        found["conditions"] = answer["conditions"]
    return found


def _short(node: dict[str, Any]) -> dict[str, Any]:
    if len(node.get("desired", ())) > _MOST:
        return {"desired": len(node["desired"])}
    return {name: value.splitlines()[0] if name == "error" else value for name, value in node.items()}


def main() -> None:
    asked = cases()
    answers = {one.name: kept(one, answer) for one, answer in zip(asked, ask(asked), strict=True)}
    lines = [orjson.dumps({name: answer}, option=orjson.OPT_SORT_KEYS)[1:-1] for name, answer in answers.items()]
    OBSERVED.write_bytes(b"{\n" + b",\n".join(lines) + b"\n}\n")


if __name__ == "__main__":
    main()
