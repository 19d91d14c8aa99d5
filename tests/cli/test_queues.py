"""`sliceworks queues` on an embedded twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.environments import twin

from sliceworks.base import clock
from sliceworks.cli import connections, main
from sliceworks.kube.resources import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    from sliceworks.kube.client import Client

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = EXAMPLES / "environments" / "training" / "environment.yaml"


def test_apply_does_not_overwrite_the_queues_of_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = tmp_path / "environment.yaml"
    second.write_text(ENVIRONMENT.read_text().replace("name: training", "name: other", 1))

    loop = clock.new_loop(virtual=True, seed=1)
    environments = twin(0)
    client = loop.run_until_complete(environments.__aenter__())

    def run_on_cluster(work: Callable[[Client], Awaitable[Any]], where: object, namespace: str = "") -> Any:
        return loop.run_until_complete(work(client))

    monkeypatch.setattr(connections, "run_on_cluster", run_on_cluster)
    try:
        for _ in range(2):  # applying the same environment again is not an error
            assert main.run(["queues", "apply", "-q", "-f", str(ENVIRONMENT)]) == 0, capsys.readouterr().err
        before = loop.run_until_complete(client.get(NAMESPACE, "tpu-training"))
        timed = tmp_path / "timed.yaml"
        timed.write_text(ENVIRONMENT.read_text().replace("\n  queues:\n", "\n  queues:\n    readyWithin: 5m\n"))
        assert main.run(["queues", "apply", "-f", str(timed)]) == 0
        assert "queues.readyWithin is a setting of Kueue" in capsys.readouterr().err
        assert main.run(["queues", "apply", "-q", "-f", str(second)]) == 1
        assert "belongs to environment training" in capsys.readouterr().err
        assert loop.run_until_complete(client.get(NAMESPACE, "tpu-training")) == before
    finally:
        loop.run_until_complete(environments.__aexit__(None, None, None))
        loop.close()
