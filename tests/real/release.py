"""The release of a controller as its project builds it, installed for programs on this machine."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, Self

import yaml
from tests.real.build import module_folder
from tests.real.processes import serves
from tests.real.programs import PROGRAMS
from tests.support import kubectl
from tests.support.chainsaw import apply
from tests.support.helm import Helm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.processes import Process
    from tests.support.http import Api

Object = dict[str, Any]
_ORDER = ("Namespace", "CustomResourceDefinition")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_HOOK = "helm.sh/hook"


class Release:
    """The objects of a release. Its webhooks are called at a URL, or where the cluster finds their Services."""

    def __init__(self, objects: list[Object]) -> None:
        self._webhooks = [obj for obj in objects if obj["kind"] in _WEBHOOKS]
        self._others = sorted((obj for obj in objects if obj not in self._webhooks), key=lambda obj: obj["kind"] not in _ORDER)

    @classmethod
    def kustomized(cls, program: str, module: str) -> Self:
        """A project's `config/default`, without the Deployment: its program is a process of the test."""
        source = module_folder(PROGRAMS[program], module) / "config" / "default"
        command = (str(kubectl.program()), "kustomize", str(source))
        output = subprocess.run(command, capture_output=True, check=True).stdout
        return cls([obj for obj in yaml.load_all(output, yaml.CSafeLoader) if obj["kind"] != "Deployment"])

    @classmethod
    def rendered(cls, folder: Path, namespace: str, *charts: Path, settings: tuple[str, ...] = ()) -> Self:
        """Charts with these settings and their namespace, without their hooks; `folder` is for Helm's files."""
        objects: list[Object] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}]
        for chart in charts:
            output = Helm(folder)("template", chart.name, str(chart), f"--namespace={namespace}", *settings)
            objects += [obj for obj in yaml.load_all(output, yaml.CSafeLoader) if obj]
        return cls([obj for obj in objects if _HOOK not in (obj["metadata"].get("annotations") or {})])

    def install(self, api: Api, url: str = "", authority: str = "", namespace: str = "") -> None:
        """Create everything but the admission webhooks; conversion webhooks are called at `url`."""
        for obj in self._others:
            apply(api, redirected(obj, url, authority), namespace)

    def wait_served(self, process: Process, url: str) -> None:
        """Wait until the program serves all its admission webhooks: it reports ready before."""
        clients = [webhook["clientConfig"]["service"]["path"] for obj in self._webhooks for webhook in obj["webhooks"]]
        process.wait_until(lambda: all(serves(f"{url}{path}") for path in clients))

    def register_webhooks(self, api: Api, url: str = "", authority: str = "") -> None:
        """Create the webhooks, called at `url` by a certificate of `authority`."""
        for obj in self._webhooks:
            apply(api, redirected(obj, url, authority))


def redirected(value: Any, url: str, authority: str) -> Any:
    """The object with the clients of all webhooks at `url`, if there is one, instead of a Service."""
    if isinstance(value, list):
        return [redirected(item, url, authority) for item in value]
    if not isinstance(value, dict) or not url:
        return value
    client = value.get("clientConfig", {}).get("service")
    changed = {"clientConfig": {"url": f"{url}{client['path']}", "caBundle": authority}} if client else {}
    return {key: redirected(item, url, authority) for key, item in value.items()} | changed
