"""The annotation in which `kubectl apply` keeps what it last applied from the client's side, seen by server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.applied import misfits
from sliceworks.schemas.comparison import claimed, compare
from sliceworks.schemas.fieldsets import Fields, difference
from sliceworks.schemas.shapes import compact

if TYPE_CHECKING:
    from sliceworks.schemas.shapes import Shape

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def allowed(shape: Shape, live: dict[str, Any], api_version: str) -> Fields:
    """The fields that were applied from the client and are still as they were applied: kubectl may take these over."""
    text = _text(live.get("metadata"))
    try:
        last = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(last, dict) or last.get("apiVersion") != api_version or next(misfits(shape, last), None):
        return {}
    changed, removed = compare(shape, last, live)
    return difference(difference(claimed(shape, last), changed or {}), removed or {})


def refreshed(metadata: dict[str, Any], applied: dict[str, Any]) -> None:
    """Let the annotation, where there is one, say what is applied now."""
    if not _text(metadata):
        return
    given = applied.get("metadata")
    if isinstance(given, dict) and ANNOTATION in (given.get("annotations") or {}):
        annotations = {name: value for name, value in given["annotations"].items() if name != ANNOTATION}
        applied = {**applied, "metadata": {**given, "annotations": annotations}}
        if not annotations:
            del applied["metadata"]["annotations"]
    metadata["annotations"] = {**metadata["annotations"], ANNOTATION: compact(applied) + "\n"}


def _text(metadata: Any) -> str:
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return str(annotations.get(ANNOTATION) or "") if isinstance(annotations, dict) else ""
