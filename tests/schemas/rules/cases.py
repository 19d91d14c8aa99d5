"""The corpus: objects, and the responses of a real kube-apiserver."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import yaml

Json = dict[str, Any]
CORPUS = Path(__file__).parent / "corpus"
ANSWERS = CORPUS / "answers.json"
NAMESPACE = "rules"
CLUSTER_SCOPED = frozenset(
    [
        "Namespace",
        "Node",
        "PersistentVolume",
        "ClusterRole",
        "ClusterRoleBinding",
        "IngressClass",
        "StorageClass",
        "CSIDriver",
        "CSINode",
        "PriorityClass",
        "VolumeAttachment",
        "RuntimeClass",
        "FlowSchema",
        "PriorityLevelConfiguration",
        "CertificateSigningRequest",
        "DeviceClass",
        "ResourceSlice",
    ]
)


class Case(NamedTuple):
    """An object to create, and optionally a merge patch that updates it or one of its subresources."""

    id: str
    object: Json
    update: Json | None
    subresource: str


def cases() -> list[Case]:
    items = [item for file in sorted(CORPUS.glob("*.yaml")) for item in yaml.load(file.read_text(), yaml.CSafeLoader)]
    return [
        Case(item["id"], _prepared(deepcopy(item["object"])), item.get("update"), item.get("subresource", "")) for item in items
    ]


def answers() -> dict[str, Json]:
    result: dict[str, Json] = orjson.loads(ANSWERS.read_bytes())
    return result


def _prepared(obj: Json) -> Json:
    """In its namespace, and without the token volume that admission would add to a pod."""
    if obj["kind"] not in CLUSTER_SCOPED:
        obj["metadata"]["namespace"] = NAMESPACE
    if obj["kind"] == "Pod" and "spec" in obj:
        obj["spec"]["automountServiceAccountToken"] = False
    annotations = obj["metadata"].get("annotations") or {}
    for key, value in annotations.items():
        if value == "BIG-ANNOTATION":
            annotations[key] = "x" * (256 * 1024)
    return obj
