"""What is told of a pod's image: that it was there, or how long it took to get it."""

from __future__ import annotations

from typing import Any

from sliceworks.base import clock
from sliceworks.twin.nodes.words import spoken


def _pod(reason: str = "") -> dict[str, Any]:
    states = [{"name": "main", "restartCount": 0, "state": {"waiting": {"reason": reason}}}] if reason else []
    status = {"startTime": clock.timestamp(), "containerStatuses": states}
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}, "status": status}


def test_an_image_that_was_there() -> None:
    assert spoken("$pulled", _pod()) == 'Container image "app:1" already present on machine and can be accessed by the pod'


def test_an_image_that_was_pulled() -> None:
    async def main() -> str:
        pod = _pod("ContainerCreating")
        await clock.sleep(90)
        return spoken("$pulled", pod)

    told = clock.run(main(), virtual=True, seed=1)
    assert told == 'Successfully pulled image "app:1" in 1m30s (1m30s including waiting). Image size: 0 bytes.'
