"""The manifests below `deploy/`, put together as Kustomize does: resources of all bases, with their namespace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from tests.support.http import Api

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


def going(api: Api, namespace: str) -> bool:
    """Whether a namespace is on its way out: until it is gone nothing can be made in it."""
    found = api.get(f"/api/v1/namespaces/{namespace}")
    return found.status == 200 and found.json["status"]["phase"] == "Terminating"
