"""Extracts what the google provider's code adds to its schema (replacements, conflicts, values) into the stand-in provider's data.

    python -m tests.real.extract_provider_rules CHECKOUT

CHECKOUT is a working tree of terraform-provider-google at the version of the data; it is read, not built.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

FILE = Path(__file__).parents[2] / "src/sliceworks/infra/provider/data/google.json"
SERVICES = {
    "artifact_registry": "artifactregistry",
    "bigquery": "bigquery",
    "compute": "compute",
    "container": "container",
    "gke_hub_feature": "gkehub2",
    "gke_hub_feature_membership": "gkehub",
    "gke_hub_membership": "gkehub",
    "project": "resourcemanager",
    "pubsub": "pubsub",
    "service_account": "resourcemanager",
    "storage": "storage",
    "vertex_ai": "vertexai",
}
"""The package of a resource, by the longest prefix of its name."""

Object = dict[str, Any]


def package(resource: str) -> str:
    """The package of a resource; empty if it is not extracted."""
    name = resource.removeprefix("google_")
    return SERVICES[max(result, key=len)] if (result := [prefix for prefix in SERVICES if name.startswith(prefix)]) else ""


def has(block: Object, path: str) -> bool:
    """Whether a schema has an attribute or block."""
    name, _, rest = path.partition(".")
    if name in block.get("attributes", {}):
        return not rest
    nested = block.get("blocks", {}).get(name)
    return nested is not None and (not rest or has(nested, rest))


def member_rules(block: Object) -> Object:
    """A member of a policy is never changed."""
    attributes = [
        name for name, item in block["attributes"].items() if "required" in item["use"] or name in ("project", "location")
    ]
    condition = block.get("blocks", {}).get("condition", {})
    inside = [f"condition.{name}" for name in condition.get("attributes", {})]
    return {"force_new": sorted([*attributes, *(["condition"] if condition else []), *inside])}


def fitted(rules: Object, block: Object) -> Object:
    """Rules without paths that the schema does not have, and without empty parts."""
    result: Object = {"force_new": [path for path in rules.get("force_new") or () if has(block, path)]}
    for key in ("conflicts", "required_with"):
        pairs = {
            path: [other for other in others if other != path and has(block, other)]
            for path, others in (rules.get(key) or {}).items()
        }
        result[key] = {path: others for path, others in pairs.items() if others and has(block, path)}
    for key in ("exactly_one_of", "at_least_one_of"):
        groups = [[path for path in group if has(block, path)] for group in rules.get(key) or ()]
        result[key] = [group for group in groups if len(group) > 1]
    result["values"] = {path: values for path, values in (rules.get("values") or {}).items() if has(block, path)}
    return {key: value for key, value in result.items() if value}


def main(checkout: str) -> int:
    """Write the rules to the data file."""
    data = orjson.loads(FILE.read_bytes())
    members = {name for name in data["resources"] if name.endswith("_iam_member")}
    pairs = [f"{name}={package(name)}" for name in data["resources"] if name not in members and package(name)]
    command = ["go", "run", ".", str(Path(checkout).resolve()), *pairs]
    extracted = orjson.loads(subprocess.check_output(command, cwd=Path(__file__).parent / "provider_rules"))
    rules = {name: fitted(extracted[name], data["resources"][name]) for name in extracted}
    data["rules"] = dict(sorted({**rules, **{name: member_rules(data["resources"][name]) for name in members}}.items()))
    FILE.write_bytes(orjson.dumps(data))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
