"""Google's discovery documents, as google-api-python-client ships them; tests check requests and responses against them.

`python -m tests.support.discovery` rewrites the names and types that the twin ships.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

Obj = dict[str, Any]
SHIPPED = Path(__file__).parents[2] / "src" / "sliceworks" / "twin" / "cloud" / "core" / "data"
ALL: tuple[str, ...] = ()
_POLICY = "SetIamPolicyRequest"
SERVICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("container", "v1"): ALL,
    ("container", "v1beta1"): ALL,
    ("cloudresourcemanager", "v1"): ("GetIamPolicyRequest", "TestIamPermissionsRequest", _POLICY),
    ("iamcredentials", "v1"): ("GenerateAccessTokenRequest",),
    ("cloudbilling", "v1"): ("ProjectBillingInfo",),
    ("serviceusage", "v1"): ("EnableServiceRequest", "DisableServiceRequest", "BatchEnableServicesRequest"),
    ("serviceusage", "v1beta1"): ("EnableServiceRequest", "DisableServiceRequest", "BatchEnableServicesRequest"),
    ("iam", "v1"): (
        "CreateServiceAccountRequest",
        "PatchServiceAccountRequest",
        "EnableServiceAccountRequest",
        "DisableServiceAccountRequest",
        "TestIamPermissionsRequest",
        "CreateRoleRequest",
        "UndeleteRoleRequest",
        "Role",
        _POLICY,
    ),
    ("compute", "v1"): (
        "Network",
        "Subnetwork",
        "Router",
        "ResourcePolicy",
        "Address",
        "Firewall",
        "Image",
        "SubnetworksExpandIpCidrRangeRequest",
        "SubnetworksSetPrivateIpGoogleAccessRequest",
    ),
    ("storage", "v1"): ("Bucket", "Policy", "Object"),
    ("artifactregistry", "v1"): ("Repository", _POLICY),
    ("cloudbuild", "v1"): ("Build", "CancelBuildRequest"),
    ("pubsub", "v1"): (
        "Schema",
        "Topic",
        "Subscription",
        "UpdateTopicRequest",
        "UpdateSubscriptionRequest",
        "PublishRequest",
        "PullRequest",
        "AcknowledgeRequest",
        "ModifyAckDeadlineRequest",
        _POLICY,
    ),
    ("bigquery", "v2"): ("Dataset", "Table", "TableDataInsertAllRequest", "QueryRequest", "Job"),
    ("aiplatform", "v1"): ("GoogleCloudAiplatformV1Tensorboard",),
    ("gkehub", "v1"): ("Membership", "Feature"),
}
"""What the twin serves, with the messages that it reads where these are not all."""
UNLISTED = {
    ("compute", "NetworkRoutingConfig"): {"deleteBgpAlwaysCompareMed": "bool"},
    ("compute", "RouterNat"): {"initialNatIps": "[string]"},
}
"""Fields that Terraform's provider sends and Google accepts, but that Google does not document."""
_NUMBERS = {"int32": "int32", "uint32": "int32", "int64": "int64", "uint64": "int64"}


@cache
def document(service: str, version: str) -> Obj:
    """The discovery document of a version of a service."""
    folder = resources.files("googleapiclient") / "discovery_cache" / "documents"
    result: Obj = orjson.loads((folder / f"{service}.{version}.json").read_bytes())
    return result


def reduced(service: str, version: str) -> dict[str, dict[str, str]]:
    """The names and types of all messages."""
    schemas = document(service, version)["schemas"]
    return {
        name: {field: _kind(kind) for field, kind in sorted((message.get("properties") or {}).items())}
        for name, message in sorted(schemas.items())
    }


def needed(service: str, version: str) -> dict[str, dict[str, str]]:
    """The messages that the twin reads, and the messages that they contain."""
    result, expected = reduced(service, version), SERVICES[service, version]
    if expected == ALL:
        return result
    waiting, kept = list(expected), dict[str, dict[str, str]]()
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = dict(sorted({**result[name], **UNLISTED.get((service, name), {})}.items()))
            waiting.extend(entry for kind in kept[name].values() for entry in re.findall(r"#(\w+)", kind))
    return dict(sorted(kept.items()))


def _kind(kind: Obj) -> str:
    if "$ref" in kind:
        return f"#{kind['$ref']}"
    if "enum" in kind:
        return "|".join(kind["enum"])
    name = kind["type"]
    if name == "array":
        return f"[{_kind(kind['items'])}]"
    if name == "object":
        return f"{{{_kind(kind['additionalProperties'])}}}" if "additionalProperties" in kind else "any"
    if name in {"string", "integer"}:
        return _NUMBERS.get(kind.get("format", ""), "string")
    return {"boolean": "bool", "number": "double", "any": "any"}[name]


@cache
def methods(service: str, version: str) -> list[tuple[str, re.Pattern[str], str, str]]:
    """Every method: its HTTP method, its paths, and the messages of its request and response."""
    result: list[tuple[str, re.Pattern[str], str, str]] = []

    def gather(resource: Obj) -> None:
        for method in (resource.get("methods") or {}).values():
            path = re.sub(r"\\{[^}]*\\}", "[^/:]+", re.escape(method.get("flatPath") or method["path"]))
            messages = ((method.get(part) or {}).get("$ref", "") for part in ("request", "response"))
            result.append((method["httpMethod"], re.compile(path), *messages))
        for below in (resource.get("resources") or {}).values():
            gather(below)

    gather(document(service, version))
    return result


def messages(service: str, version: str, http: str, path: str) -> tuple[str, str]:
    """The messages of a call's request and response; `path` begins with the version."""
    for method, pattern, request, response in methods(service, version):
        if method == http and pattern.fullmatch(path):
            return request, response
    raise AssertionError(f"Google's {service} {version} has no {http} {path}")


def problems(service: str, version: str, message: str, value: Any, place: str = "") -> list[str]:
    """The deviations of a message from the discovery document."""
    schemas = document(service, version)["schemas"]
    return list(_problems(schemas, {"$ref": message}, value, place or message))


def _problems(schemas: Obj, kind: Obj, value: Any, place: str) -> Iterator[str]:
    if "$ref" in kind:
        kind = schemas[kind["$ref"]]
    expected = _PYTHON[kind["type"]]
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool and kind["type"] != "any"):
        yield f"{place}: {value!r} is not of type {kind['type']}"
    elif kind["type"] == "array":
        for index, item in enumerate(value):
            yield from _problems(schemas, kind["items"], item, f"{place}[{index}]")
    elif kind["type"] == "object":
        for key, item in value.items():
            below = (kind.get("properties") or {}).get(key) or kind.get("additionalProperties")
            if below is None:
                yield f"{place}.{key}: unknown"
            else:
                yield from _problems(schemas, below, item, f"{place}.{key}")
    elif "enum" in kind and value not in kind["enum"]:
        yield f"{place}: {value!r} is none of {kind['enum']}"
    elif kind.get("format") in {"int64", "uint64"} and not re.fullmatch(r"-?[0-9]+", value):
        yield f"{place}: {value!r} is not a number"


_PYTHON: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "any": object,
}


def rendered(service: str, version: str) -> bytes:
    """The content of the file that the twin ships."""
    return orjson.dumps(needed(service, version), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    for entry in SERVICES:
        (SHIPPED / f"{entry[0]}-{entry[1]}.json").write_bytes(rendered(*entry))
