"""The way from a process to the twin's own API: a kubeconfig of the pod's service account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import ApiError
from sliceworks.kube import kubeconfig

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_HOURS_24 = 86_400


@dataclass(slots=True)
class Access:
    """Where the API is served; nowhere before the twin listens, and in a twin that serves nobody outside its process."""

    url: str = ""
    ca: bytes = b""

    async def variables(self, client: Client, pod: Obj, folder: Path) -> dict[str, str]:
        """What a process finds in its environment, where its pod has a token at all."""
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        if not self.url or spec.get("automountServiceAccountToken") is False:
            return {}
        account = spec.get("serviceAccountName") or "default"
        try:
            answer = await client.token(account, namespace, seconds=_HOURS_24)
        except ApiError:
            return {}  # no such account: the pod runs without
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "kubeconfig"
        token = answer["status"]["token"]
        text = kubeconfig.render(name="twin", server=self.url, token=token, ca=self.ca, namespace=namespace)
        file.touch(mode=0o600)
        file.write_text(text)
        return {"KUBECONFIG": str(file)}
