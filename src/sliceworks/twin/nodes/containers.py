"""The statuses of containers, as a kubelet writes them."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

Obj = dict[str, Any]


def is_sidecar(container: Obj) -> bool:
    """An init container that runs as long as the pod does."""
    return container.get("restartPolicy") == "Always"


def restarts(container: Obj, spec: Obj, exit_code: int) -> bool:
    """Whether the kubelet starts a container again that ended so."""
    policy = container.get("restartPolicy") or spec.get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def identity(uid: str, name: str, count: int) -> str:
    """The runtime's name for one run of a container: the same for the same pod, container and count."""
    return f"containerd://{hashlib.sha256(f'{uid}/{name}/{count}'.encode()).hexdigest()}"


@lru_cache(1024)
def image_identity(image: str) -> str:
    """An image by digest."""
    if "@" in image:
        return image
    name, colon, tag = image.rpartition(":")
    repository = name if colon and "/" not in tag else image
    return f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def waiting(container: Obj, old: Obj | None, reason: str, message: str = "") -> Obj:
    """A container that is not running yet, or not again."""
    state = {"message": message, "reason": reason} if message else {"reason": reason}
    return _status(container, old, {"waiting": state}, ready=False, started=False)


def running(uid: str, container: Obj, old: Obj | None, now: str, *, ready: bool, restarted: bool = False) -> Obj:
    """A container that runs: since now, unless it ran already."""
    was = (old or {}).get("state", {}).get("running")
    status = _status(container, old, {"running": was or {"startedAt": now}}, ready=ready, started=True)
    if was is None:
        if restarted:
            status["restartCount"] += 1
        status["containerID"] = identity(uid, container["name"], status["restartCount"])
        status["imageID"] = image_identity(container["image"])
    return status


def terminated(uid: str, container: Obj, old: Obj | None, now: str, exit_code: int, *, reason: str = "", message: str = "") -> Obj:
    """A container that has ended."""
    was = (old or {}).get("state", {})
    number = identity(uid, container["name"], (old or {}).get("restartCount", 0))
    ended = {
        "containerID": number,
        "exitCode": exit_code,
        "finishedAt": now,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": (was.get("running") or {}).get("startedAt", now),
    }
    if message:
        ended["message"] = message
    status = _status(container, old, {"terminated": ended}, ready=False, started=False)
    status["containerID"] = number
    status["imageID"] = image_identity(container["image"])
    return status


def _status(container: Obj, old: Obj | None, state: Obj, *, ready: bool, started: bool) -> Obj:
    before = (old or {}).get("state", {})
    last = (old or {}).get("lastState") or {}
    if before.get("terminated") and "terminated" not in state:
        last = {"terminated": before["terminated"]}
    status: Obj = {
        "image": container["image"],
        "imageID": (old or {}).get("imageID", ""),
        "lastState": last,
        "name": container["name"],
        "ready": ready,
        "restartCount": (old or {}).get("restartCount", 0),
        "started": started,
        "state": state,
    }
    if number := (old or {}).get("containerID"):
        status["containerID"] = number
    return status
