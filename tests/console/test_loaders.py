"""The loaders of pages (reports, environments, prompts, YAML), and the secrets that they must not show."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.transport import Request, Response
from sliceworks.console import graph_loader
from sliceworks.console.auth import ReadOnlyTransport
from sliceworks.console.environment_loader import EnvironmentLoader, planned_stages
from sliceworks.console.pages import rehearsal
from sliceworks.console.views.faults import FAULTS
from sliceworks.console.views.load_test_view import LoadRunLoader
from sliceworks.console.views.timeline import Timeline
from sliceworks.infra.cluster.inventory import ApplyResult, ObjectReference
from sliceworks.infra.stages import compile_stages
from sliceworks.loadtest import results
from sliceworks.platform.twin_clock import ClockStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.console.components import Node
    from sliceworks.specs.environment import Environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "environments" / "training" / "environment.yaml"
Object = dict[str, Any]


def test_secret_data_is_never_shown() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"stringData":{"a":"hunter2"}}', "mine": "stays"}
    held = {"data": {"key": "aHVudGVyMg=="}, "stringData": {"a": "hunter2"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": applied}, **held}
    text = graph_loader.redacted_yaml(secret)
    assert "key: not shown" in text
    assert "mine: stays" in text
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
    plain = graph_loader.redacted_yaml(
        {"kind": "ConfigMap", "metadata": {"name": "c", "managedFields": [{"x": 1}]}, "data": {"key": "value"}}
    )
    assert "key: value" in plain
    assert "managedFields" not in plain


@pytest.mark.parametrize(
    ("path", "goes"),
    [
        ("/api/v1/namespaces/ml/services/gateway:8080/proxy/v1/chat/completions", True),
        ("/api/v1/namespaces/ml/services/triton:8000/proxy/v2/models/densenet/generate_stream", True),
        ("/api/v1/namespaces/ml/services/gateway:8081/proxy/publish", False),
        ("/api/v1/namespaces/ml/services/gateway:8081/proxy/v1/chat/completions/../../../admin/drain", False),
        ("/api/v1/namespaces/ml/pods", False),
        ("/debug/twin/clock", False),
    ],
)
def test_read_only_console_sends_only_prompts(path: str, goes: bool) -> None:
    sent: list[str] = []

    class Transport:
        async def send(self, request: Request, *, stream: bool = False) -> Response:
            sent.append(request.path)
            return Response(200, {}, b"{}")

        async def close(self) -> None: ...

    async def main() -> None:
        await ReadOnlyTransport(Transport()).send(Request("POST", path))

    if goes:
        clock.run(main())
    else:
        with pytest.raises(SliceworksError, match="read-only"):
            clock.run(main())
    assert sent == ([path] if goes else [])


def test_only_listed_runs_are_opened(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "run.json").write_bytes(orjson.dumps({"format": results.FORMAT_VERSION}))
    result = LoadRunLoader(tmp_path / "work")

    async def main() -> None:
        await result.refresh()
        assert result.runs == []
        for name in ("..", "../work", "nothing"):
            with pytest.raises(SliceworksError, match="not found"):
                await result.report(name)

    clock.run(main())


class _CreatedEnvironment:
    """An environment with two created stages and one drifted object."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.site: Any = self

    def outputs(self, *, drift: bool) -> Iterator[tuple[Any, Object, dict[str, str]]]:
        for stage in compile_stages(self._environment):
            created = {"google_storage_bucket.state": "update" if drift else ""} if stage.name != "1-base" else {}
            yield stage, {"token": "hunter2", "name": stage.name}, created

    def listed(self, outputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [("queues", str(ObjectReference("v1", "Namespace", "", "team")))]

    def compare(self, outputs: Mapping[str, Any]) -> list[ApplyResult]:
        return [ApplyResult("queues", ObjectReference("v1", "Namespace", "", "team"), "create")]


def test_environment_is_loaded_with_drift(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text(EXAMPLE.read_text())
    (tmp_path / "broken.yaml").write_text(
        "apiVersion: sliceworks.dev/v1alpha1\nkind: Environment\nmetadata: {name: x}\nspec: {projekt: y}\n"
    )
    (tmp_path / "other.yaml").write_text("kind: ConfigMap\n")
    result = EnvironmentLoader(tmp_path, lambda environment, _file: _CreatedEnvironment(environment))

    async def main() -> None:
        await result.refresh()
        assert result.known is not None
        [(name, known)] = result.known.items()
        assert [item.name for item in planned_stages(known.environment)] == ["0-bootstrap", "1-base", "2-cluster"]
        assert len(result.broken) == 1
        assert "broken.yaml:4" in result.broken[0]
        await result.read_state(name, drift=False)
        assert [stage.state for stage in known.stages] == ["no drift", "not created", "no drift", "no drift"]
        await asyncio.gather(result.read_state(name, drift=True), result.read_state(name, drift=True))
        assert [stage.state for stage in known.stages] == ["1 drifted", "not created", "1 drifted", "1 drifted"]
        assert "hunter2" not in str(known.stages)
        assert (known.busy, known.message, known.drift) == (False, "", True)

    clock.run(main())


def test_unavailable_environment_is_reported(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text(EXAMPLE.read_text())

    def nowhere(environment: Environment, file: Path) -> _CreatedEnvironment:
        raise SliceworksError("Terraform is not installed", hint="install terraform or tofu")

    async def main() -> None:
        result = EnvironmentLoader(tmp_path, nowhere)
        await result.refresh()
        assert result.known is not None
        await result.read_state("training", drift=True)
        assert result.known["training"].message == "Terraform is not installed (install terraform or tofu)"
        await result.read_state("other", drift=True)
        assert not EnvironmentLoader(tmp_path, None).can_read_state

    clock.run(main())


def _all(node: Node, tag: str) -> Iterator[Object]:
    if isinstance(node, list):
        if node[0] == tag:
            yield node[1]
        for child in node[2:]:
            yield from _all(child, tag)


def test_read_only_console_disables_rehearsal_buttons() -> None:
    pace, now = ClockStatus(datetime(2026, 1, 5, tzinfo=UTC), 60.0, False), datetime(2026, 1, 5, tzinfo=UTC)
    fields = {"slice": "", "duration": "0"}
    for allowed in (False, True):
        shown = [rehearsal.clock_panel(pace, now, "", allowed=allowed), rehearsal.fault_panel([], [], fields, allowed=allowed)]
        buttons = [button for node in shown for button in _all(node, "button")]
        assert len(buttons) == 5 + len(FAULTS)
        assert all(("disabled" in button) != allowed for button in buttons)
    own = list(_all(rehearsal.clock_panel(ClockStatus(now, None, False), now, "", allowed=True), "button"))
    assert all("disabled" in button for button in own)


def test_rehearsal_page_without_twin_has_a_hint() -> None:
    assert "sliceworks twin start --speed 60" in str(rehearsal.rehearsal_header(False, None))
    assert "Checking" in str(rehearsal.rehearsal_header(None, None))
    assert "No events yet" in str(rehearsal.event_list(Timeline(), [], ""))
