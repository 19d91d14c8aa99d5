"""The words that messages leave open: `$image`, `$container`, `$pod`, `$backoff` and `$pulled`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sliceworks.base import clock, duration

Obj = dict[str, Any]
FIRST_BACKOFF, LONGEST_BACKOFF = 10, 300


def backoff(restarts: int) -> int:
    """Seconds that the kubelet waits before it starts a container again that was restarted so often."""
    return int(min(FIRST_BACKOFF * 2 ** min(max(restarts - 1, 0), 16), LONGEST_BACKOFF))


def _pulled(status: Obj) -> str:
    """What is told once an image is there: whether it had to be pulled, and how long that took."""
    waits = [(item["state"].get("waiting") or {}).get("reason") for item in status.get("containerStatuses") or ()]
    if not {"ContainerCreating", "ImagePullBackOff"} & set(waits):
        return 'Container image "$image" already present on machine and can be accessed by the pod'
    seconds = (clock.now() - datetime.fromisoformat(status["startTime"])).total_seconds()
    took = duration.render(max(round(seconds, 3), 0))
    return f'Successfully pulled image "$image" in {took} ({took} including waiting). Image size: 0 bytes.'


def spoken(message: str, obj: Obj, container: Obj | None = None) -> str:
    """A message about an object, with its words put in; about a pod's first container unless another is given."""
    if "$" not in message:
        return message
    metadata, status = obj["metadata"], obj.get("status") or {}
    container = container or next(iter(obj["spec"].get("containers") or ()), {"name": "", "image": ""})
    count = next((item["restartCount"] for item in status.get("containerStatuses") or () if item["name"] == container["name"]), 0)
    wait = backoff(count)
    words = {
        "$pulled": _pulled(status),
        "$image": container["image"],
        "$container": container["name"],
        "$pod": f"{metadata['name']}_{metadata.get('namespace', '')}({metadata.get('uid', '')})",
        "$backoff": f"{wait // 60}m{wait % 60}s" if wait >= 60 else f"{wait}s",
    }
    for word, value in words.items():
        message = message.replace(word, value)
    return message
