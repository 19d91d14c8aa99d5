"""Messages of image events."""

from __future__ import annotations

from typing import Any

from sliceworks.base import clock
from sliceworks.twin.nodes.container_status import render_message


def _pod(reason: str = "") -> dict[str, Any]:
    states = [{"name": "main", "restartCount": 0, "state": {"waiting": {"reason": reason}}}] if reason else []
    status = {"startTime": clock.timestamp(), "containerStatuses": states}
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}, "status": status}


def test_present_image_message() -> None:
    assert render_message("$pulled", _pod()) == 'Container image "app:1" already present on machine and can be accessed by the pod'


def test_pulled_image_message() -> None:
    async def main() -> str:
        pod = _pod("ContainerCreating")
        await clock.sleep(90)
        return render_message("$pulled", pod)

    reported = clock.run(main(), virtual=True, seed=1)
    assert reported == 'Successfully pulled image "app:1" in 1m30s (1m30s including waiting). Image size: 0 bytes.'
