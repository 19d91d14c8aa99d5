"""The way from a process to the twin's own API: a token of the pod's service account, and a kubeconfig with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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

    @property
    def address(self) -> tuple[str, int] | None:
        """The same as host and port."""
        parts = urlsplit(self.url)
        return (parts.hostname or "", parts.port or 443) if self.url else None

    async def token(self, client: Client, pod: Obj) -> str:
        """A token of the pod's service account, where the pod has one at all."""
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        if not self.url or spec.get("automountServiceAccountToken") is False:
            return ""
        try:
            answer = await client.token(spec.get("serviceAccountName") or "default", namespace, seconds=_HOURS_24)
        except ApiError:
            return ""  # no such account: the pod runs without
        return str(answer["status"]["token"])

    def variables(self, token: str, namespace: str, folder: Path) -> dict[str, str]:
        """What a process with this token finds in its environment."""
        if not token:
            return {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "kubeconfig"
        text = kubeconfig.render(name="twin", server=self.url, token=token, ca=self.ca, namespace=namespace)
        file.touch(mode=0o600)
        file.write_text(text)
        return {"KUBECONFIG": str(file)}
