"""Container statuses as the kubelet writes them, and the messages of its events."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Any

from sliceworks.base import clock, duration

Obj = dict[str, Any]


def should_restart(container: Obj, spec: Obj, exit_code: int) -> bool:
    """Whether the kubelet restarts a container with this exit code."""
    policy = container.get("restartPolicy") or spec.get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def container_id(uid: str, name: str, count: int) -> str:
    """The container ID of one run, derived from pod UID, container name and restart count."""
    return f"containerd://{hashlib.sha256(f'{uid}/{name}/{count}'.encode()).hexdigest()}"


@lru_cache(1024)
def image_id(image: str) -> str:
    """An image reference with a digest."""
    if "@" in image:
        return image
    name, colon, tag = image.rpartition(":")
    repository = name if colon and "/" not in tag else image
    return f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def waiting_status(container: Obj, old: Obj | None, reason: str, message: str = "") -> Obj:
    """The status of a waiting container."""
    state = {"message": message, "reason": reason} if message else {"reason": reason}
    return _status(container, old, {"waiting": state}, ready=False, started=False)


def running_status(uid: str, container: Obj, old: Obj | None, now: str, *, ready: bool, restarted: bool = False) -> Obj:
    """The status of a running container, which starts now unless it is running already."""
    running = (old or {}).get("state", {}).get("running")
    status = _status(container, old, {"running": running or {"startedAt": now}}, ready=ready, started=True)
    if running is None:
        if restarted:
            status["restartCount"] += 1
        status["containerID"] = container_id(uid, container["name"], status["restartCount"])
        status["imageID"] = image_id(container["image"])
    return status


def terminated_status(
    uid: str, container: Obj, old: Obj | None, now: str, exit_code: int, *, reason: str = "", message: str = ""
) -> Obj:
    """The status of a terminated container."""
    before = (old or {}).get("state", {})
    run_id = container_id(uid, container["name"], (old or {}).get("restartCount", 0))
    terminated = {
        "containerID": run_id,
        "exitCode": exit_code,
        "finishedAt": now,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": (before.get("running") or {}).get("startedAt", now),
    }
    if message:
        terminated["message"] = message
    status = _status(container, old, {"terminated": terminated}, ready=False, started=False)
    status["containerID"] = run_id
    status["imageID"] = image_id(container["image"])
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
    if run_id := (old or {}).get("containerID"):
        status["containerID"] = run_id
    return status


_FIRST_BACKOFF, _MAX_BACKOFF = 10, 300


def crash_loop_backoff(restarts: int) -> int:
    """Seconds that the kubelet waits before the next restart of a container."""
    return int(min(_FIRST_BACKOFF * 2 ** min(max(restarts - 1, 0), 16), _MAX_BACKOFF))


def _pulled_message(status: Obj) -> str:
    """The message of a Pulled event: whether the image was present, or how long the pull took."""
    reasons = [(item["state"].get("waiting") or {}).get("reason") for item in status.get("containerStatuses") or ()]
    if not {"ContainerCreating", "ImagePullBackOff"} & set(reasons):
        return 'Container image "$image" already present on machine and can be accessed by the pod'
    seconds = (clock.now() - datetime.fromisoformat(status["startTime"])).total_seconds()
    took = duration.render(max(round(seconds, 3), 0))
    return f'Successfully pulled image "$image" in {took} ({took} including waiting). Image size: 0 bytes.'


def render_message(message: str, obj: Obj, container: Obj | None = None) -> str:
    """Fill in the placeholders of a message; `container` is the first of the pod by default."""
    if "$" not in message:
        return message
    metadata, status = obj["metadata"], obj.get("status") or {}
    container = container or next(iter(obj["spec"].get("containers") or ()), {"name": "", "image": ""})
    count = next((item["restartCount"] for item in status.get("containerStatuses") or () if item["name"] == container["name"]), 0)
    backoff = crash_loop_backoff(count)
    placeholders = {
        "$pulled": _pulled_message(status),
        "$image": container["image"],
        "$container": container["name"],
        "$pod": f"{metadata['name']}_{metadata.get('namespace', '')}({metadata.get('uid', '')})",
        "$backoff": f"{backoff // 60}m{backoff % 60}s" if backoff >= 60 else f"{backoff}s",
    }
    for placeholder, value in placeholders.items():
        message = message.replace(placeholder, value)
    return message
