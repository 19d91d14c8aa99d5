"""The manifests below `deploy/`, put together as Kustomize does, as far as they need it: resources, namespace and labels.

What Kustomize would take from an overlay (images, settings, patches) comes from the Environment document instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument

Object = dict[str, Any]
_KNOWN = {"apiVersion", "kind", "namespace", "resources", "labels"}
_OF_THE_CLUSTER = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace"}


def folder(name: str) -> Path:
    """Where the manifests of a part lie: beside this code when installed, in the repository when worked on."""
    packed = Path(__file__).parents[1] / "deploy"
    return (packed if packed.is_dir() else Path(__file__).parents[4] / "deploy") / name


def build(path: Path) -> list[Object]:
    """Every object of a base, in the order of its resources."""
    [document] = yamls.load_path(path / "kustomization.yaml")
    settings = document.data
    unknown = sorted(set(settings) - _KNOWN)
    if unknown:
        raise InvalidDocument(f"{unknown[0]} is not used in bases", place=document.place(unknown[0]))
    found: list[Object] = []
    for entry in settings["resources"]:
        below = path / entry
        found += build(below) if below.is_dir() else [each.data for each in yamls.load_path(below)]
    pairs = {key: value for each in settings.get("labels") or () for key, value in each["pairs"].items()}
    return [_placed(obj, settings.get("namespace", ""), pairs) for obj in found]


def _placed(obj: Object, namespace: str, pairs: dict[str, str]) -> Object:
    metadata = dict(obj["metadata"])
    if namespace and obj["kind"] not in _OF_THE_CLUSTER:
        metadata["namespace"] = namespace
    if pairs:
        metadata["labels"] = {**(metadata.get("labels") or {}), **pairs}
    return {**obj, "metadata": metadata}
