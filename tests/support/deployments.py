"""The manifests below `deploy/`, put together as Kustomize does: resources of all bases, with their namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
DEPLOY = Path(__file__).parents[2] / "deploy"


def manifests(folder: Path) -> list[Object]:
    """Every object that `kubectl apply -k` of a folder makes, but for generated ones, patches and images."""
    settings = yaml.load((folder / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    found: list[Object] = []
    for entry in settings["resources"]:
        path = folder / entry
        found += manifests(path) if path.is_dir() else list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
    namespace = settings.get("namespace")
    for obj in found if namespace else ():
        if obj["kind"] not in ("Namespace", "ClusterRole", "ClusterRoleBinding"):
            obj["metadata"]["namespace"] = namespace
    return found
