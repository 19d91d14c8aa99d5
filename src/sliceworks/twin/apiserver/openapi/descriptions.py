"""Descriptions in OpenAPI documents: Kubernetes' own if the extra `explain` is installed, and otherwise short ones of metadata.

The extra is the package lightkube-models: dataclasses with the descriptions as docstrings, which are parsed without an import.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.schemas.builtins import LIST_META, OBJECT_META

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import Distribution

Node = dict[str, Any]

TYPE_META = {
    "apiVersion": "APIVersion defines the group and version of the object's schema, for example batch/v1.",
    "kind": "Kind is the type of the object in CamelCase, for example Job. It cannot be changed.",
}
METADATA = {
    OBJECT_META: "Standard object's metadata: what identifies the object, and what clients and the server record about it.",
    LIST_META: "Standard list metadata: which state of the server the list is from, and where its next page begins.",
}
_PACKAGE = "lightkube-models"
_WIDTH = 77
"""A line of a docstring is wrapped where its next word would make it longer."""
_FIELD = re.compile(r"^\* \*\*(\w+)\*\* ``.*?`` - ", re.MULTILINE)


class Description(NamedTuple):
    """Of a component and its fields."""

    text: str = ""
    fields: Mapping[str, str] = {}


_OWN = {
    OBJECT_META: Description(
        "ObjectMeta is metadata that every stored object has.",
        {
            "annotations": "Annotations are keys and values for clients and people. Selectors cannot find an object by them.",
            "creationTimestamp": "CreationTimestamp is a timestamp from the server: when it created the object. Read-only.",
            "deletionGracePeriodSeconds": "Seconds that the object has to shut down, from the request to delete it. Read-only.",
            "deletionTimestamp": "DeletionTimestamp is set when a client requests deletion: the object is deleted at this time, or"
            " when its finalizers are removed if that is later. Read-only.",
            "finalizers": "Finalizers delay the deletion of the object. Each controller removes its own when its cleanup is done.",
            "generateName": "GenerateName is a prefix. If the object has no name, the server appends random characters to it.",
            "generation": "Generation increases when the desired state changes. Read-only.",
            "labels": "Labels are keys and values by which selectors find the object.",
            "managedFields": "ManagedFields lists the fields of each field manager. The server maintains it for server-side apply.",
            "name": "Name is unique among the objects of this kind in a namespace. It cannot be changed.",
            "namespace": "Namespace of the object; empty for cluster-scoped kinds. It cannot be changed.",
            "ownerReferences": "OwnerReferences lists the owners. When all are deleted, the object is garbage-collected.",
            "resourceVersion": "ResourceVersion identifies this version of the object, to detect conflicts and to start watches."
            " Do not interpret it. Read-only.",
            "selfLink": "Deprecated. The server does not set it.",
            "uid": "UID is unique among all objects ever created, also those of the same name. Read-only.",
        },
    ),
    LIST_META: Description(
        "ListMeta is the metadata of a list.",
        {
            "continue": "Continue is the token with which the next page is requested; empty on the last page.",
            "remainingItemCount": "How many objects follow on later pages. Not set if there is a selector.",
            "resourceVersion": "ResourceVersion identifies the state of the server that is listed; a watch can start from it.",
            "selfLink": "Deprecated. The server does not set it.",
        },
    ),
    OBJECT_META.replace("ObjectMeta", "OwnerReference"): Description(
        "OwnerReference identifies an owner of the object, in the same namespace or cluster-scoped.",
        {
            **{name: f"{text.partition(' ')[0]} of the owner." for name, text in TYPE_META.items()},
            "blockOwnerDeletion": "A foreground deletion of the owner waits until this object is deleted.",
            "controller": "The owner is the controller that manages this object. At most one owner is.",
            "name": "Name of the owner.",
            "uid": "UID of the owner.",
        },
    ),
    OBJECT_META.replace("ObjectMeta", "ManagedFieldsEntry"): Description(
        "ManagedFieldsEntry lists the fields that a field manager has set with one operation.",
        {
            "apiVersion": "APIVersion in which the fields are listed.",
            "fieldsType": "Format of fieldsV1. Always FieldsV1.",
            "fieldsV1": "The fields, as a tree.",
            "manager": "Name of the field manager.",
            "operation": "Apply for server-side apply, Update for all other requests.",
            "subresource": "Subresource of the request, for example status; empty for the object itself.",
            "time": "When the manager last changed the set of fields or one of them.",
        },
    ),
}


def described(component: str, node: Node) -> Node:
    """The raw node of a component with descriptions of itself and its fields."""
    known = (_installed(component), _OWN.get(component, Description()))

    def describe(name: str, field: Node) -> Node:
        return _with_description(field, next((text for item in known if (text := item.fields.get(name))), _standard(name, field)))

    result = _with_description(node, known[0].text or known[1].text)
    if "properties" in node:
        result = {**result, "properties": {name: describe(name, field) for name, field in node["properties"].items()}}
    return result


@cache
def version() -> str:
    """The installed version of the extra, or an empty string."""
    package = _distribution()
    return package.version if package else ""


def _with_description(node: Node, text: str) -> Node:
    return {**node, "description": text} if text else node


def _standard(name: str, field: Node) -> str:
    """The description of a field that all objects have."""
    return TYPE_META[name] if field.get("go", "").endswith(" TypeMeta") else METADATA.get(field.get("$ref", ""), "")


def _installed(component: str) -> Description:
    *_, group, api_version, kind = component.split(".")
    return _module(f"{group}_{api_version}").get(kind, Description())


@cache
def _module(name: str) -> Mapping[str, Description]:
    """The descriptions of a group version by kind; empty if the extra is not installed."""
    package = _distribution()
    path = Path(str(package.locate_file(f"lightkube/models/{name}.py"))) if package else None
    if path is None or not path.is_file():
        return {}
    classes = (item for item in ast.parse(path.read_bytes()).body if isinstance(item, ast.ClassDef))
    return {item.name: _parse(ast.get_docstring(item) or "") for item in classes}


def _distribution() -> Distribution | None:
    from importlib import metadata  # slow to import, and rarely needed

    try:
        return metadata.distribution(_PACKAGE)
    except metadata.PackageNotFoundError:
        return None


def _parse(docstring: str) -> Description:
    """The docstring of a dataclass: a description, then its fields, with names that Python allows."""
    text, _, rest = docstring.partition("**parameters**")
    parts = _FIELD.split(rest)
    names = (name.rstrip("_").replace("_", "-") for name in parts[1::2])
    return Description(_unwrap(text), dict(zip(names, (_unwrap(item.replace("\n  ", "\n")) for item in parts[2::2]), strict=True)))


def _unwrap(text: str) -> str:
    """The lines of a docstring before they were wrapped."""
    lines: list[str] = []
    width = 0
    for line in text.strip().splitlines():
        word = next(iter(line.split()), "")
        if word and width and width + 1 + len(word) > _WIDTH:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
        width = len(line)
    return "\n".join(lines)
