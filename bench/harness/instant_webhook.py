"""Admission webhooks that respond at once: `/mutate` adds an annotation to a pod, `/validate` allows it.

    python -m bench.harness.instant_webhook CERTIFICATE KEY

It prints its port when it accepts connections.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web
from tests.support.certificates import self_signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANNOTATION = "example.com/checked"
Object = dict[str, Any]
_PATCH = [{"op": "add", "path": f"/metadata/annotations/{ANNOTATION.replace('/', '~1')}", "value": "yes"}]
_RESPONSES: dict[str, Object] = {
    "/mutate": {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(_PATCH)).decode()},
    "/validate": {"allowed": True},
}


def configurations(port: int, certificate: bytes, namespace: str) -> Iterator[Object]:
    """The configurations of both webhooks, for new pods of one namespace."""
    for kind in ("Mutating", "Validating"):
        path = kind.lower().removesuffix("ing") + "e"
        client = {"url": f"https://127.0.0.1:{port}/{path}", "caBundle": base64.b64encode(certificate).decode()}
        hook = {
            "name": f"{path}.example.com",
            "clientConfig": client,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        }
        type_ = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
        yield {**type_, "metadata": {"name": path}, "webhooks": [hook]}


@contextmanager
def running(folder: Path) -> Iterator[tuple[int, bytes]]:
    """The port and the certificate of webhooks in a process of their own."""
    pair = self_signed()
    paths = folder / "webhook.crt", folder / "webhook.key"
    for path, content in zip(paths, (pair.certificate, pair.key), strict=True):
        path.write_bytes(content)
    command = [sys.executable, "-m", "bench.harness.instant_webhook", *map(str, paths)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), pair.certificate
        finally:
            process.terminate()


async def _respond(request: web.Request) -> web.Response:
    review = orjson.loads(await request.read())
    response = {"uid": review["request"]["uid"], **_RESPONSES[request.path]}
    body = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
    return web.Response(body=orjson.dumps(body), content_type="application/json")


async def serve(certificate: str, key: str) -> None:
    """Serve both webhooks until the process ends."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    app = web.Application()
    app.add_routes([web.post(path, _respond) for path in _RESPONSES])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
