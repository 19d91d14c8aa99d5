"""The rendered manifests below `deploy/` and the overlays of `examples/deploy`, read as Kustomize does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]
DEPLOY = Path(__file__).parents[2] / "deploy"
EXAMPLE = DEPLOY.parent / "examples" / "deploy" / "example-project" / "example-cluster"
OVERLAYS = sorted(path.parent for path in EXAMPLE.parent.rglob("kustomization.yaml"))


def manifests(folder: Path) -> list[Object]:
    """Every object that `kubectl apply -k` of a folder creates, without generators, patches and image overrides."""
    settings = yaml.load((folder / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    result: list[Object] = []
    for entry in settings["resources"]:
        path = folder / entry
        result += manifests(path) if path.is_dir() else list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
    return result


def component(folder: Path, name: str) -> list[Object]:
    """The objects of one component of a folder."""
    return [obj for obj in manifests(folder) if (obj["metadata"].get("labels") or {}).get("app.kubernetes.io/component") == name]


def is_terminating(api: Api, namespace: str) -> bool:
    """Whether a namespace is terminating; it accepts no new objects until it is deleted."""
    result = api.get(f"/api/v1/namespaces/{namespace}")
    return result.status == 200 and result.json["status"]["phase"] == "Terminating"
