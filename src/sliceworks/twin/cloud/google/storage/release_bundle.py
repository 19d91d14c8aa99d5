"""The public bucket with the release bundles of Config Connector's operator, which users download before they install it."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
from functools import cache

from sliceworks.base import yaml_documents
from sliceworks.schemas import config_connector
from sliceworks.twin.cloud.core.document_store import Document

BUCKET = "configconnector-operator"
_NAMES = tuple(f"{version}/release-bundle.tar.gz" for version in ("latest", config_connector.RELEASE))
_MANIFESTS = ("autopilot-configconnector-operator.yaml", "configconnector-operator.yaml")


def find_content(name: str) -> bytes | None:
    """The content of a public object; None if it does not exist."""
    return _bundle() if name in _NAMES else None


@cache
def _bundle() -> bytes:
    """A tar archive with the manifests of the operator; equal in every run."""
    text = "---\n".join(yaml_documents.dump(obj) for obj in config_connector.operator_objects()).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for manifest in _MANIFESTS:
            entry = tarfile.TarInfo(f"operator-system/{manifest}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    return gzip.compress(archive.getvalue(), mtime=0)


def to_document(name: str, content: bytes, checksums: dict[str, str]) -> Document:
    """A public object as it is stored."""
    body = {
        "kind": "storage#object",
        "contentType": "application/gzip",
        "id": f"{BUCKET}/{name}/1",
        "name": name,
        "bucket": BUCKET,
        "generation": "1",
        "metageneration": "1",
        "storageClass": "STANDARD",
        "size": str(len(content)),
        "etag": "C1=",
        "timeCreated": "2024-01-01T00:00:00.000Z",
        "updated": "2024-01-01T00:00:00.000Z",
        **checksums,
    }
    return Document(f"b/{BUCKET}", name, body, {"content": base64.b64encode(content).decode()})
