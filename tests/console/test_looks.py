"""What pages ask for beside the cluster's objects: reports, environments, prompts, YAML; and what they must never give away."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.console import graph_looks
from sliceworks.console.environment_looks import Environments, planned
from sliceworks.console.load_looks import Loads
from sliceworks.console.looking import LookingOnly
from sliceworks.console.pages import rehearsal_nodes
from sliceworks.console.views.days import Diary
from sliceworks.console.views.faults import FAULTS
from sliceworks.infra.cluster.objects import Identity
from sliceworks.infra.cluster.outcomes import Outcome
from sliceworks.infra.stages import stages
from sliceworks.kube.transport import Request, Response
from sliceworks.loadtest import results
from sliceworks.rehearsal.injection import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.console.nodes import Node
    from sliceworks.specs.environment import Environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "environments" / "training" / "environment.yaml"
Object = dict[str, Any]


def test_what_a_secret_holds_is_never_shown() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"stringData":{"a":"hunter2"}}', "mine": "stays"}
    held = {"data": {"key": "aHVudGVyMg=="}, "stringData": {"a": "hunter2"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": applied}, **held}
    text = graph_looks.shown(secret)
    assert "key: not shown" in text
    assert "mine: stays" in text
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
    plain = graph_looks.shown(
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
def test_a_console_that_only_looks_sends_prompts_and_nothing_else(path: str, goes: bool) -> None:
    sent: list[str] = []

    class Transport:
        async def send(self, request: Request, *, stream: bool = False) -> Response:
            sent.append(request.path)
            return Response(200, {}, b"{}")

        async def close(self) -> None: ...

    async def main() -> None:
        await LookingOnly(Transport()).send(Request("POST", path))

    if goes:
        clock.run(main())
    else:
        with pytest.raises(SliceworksError, match="only looks"):
            clock.run(main())
    assert sent == ([path] if goes else [])


def test_only_runs_that_are_listed_are_opened_whatever_an_address_asks_for(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "run.json").write_bytes(orjson.dumps({"format": results.FORMAT}))
    found = Loads(tmp_path / "work")

    async def main() -> None:
        await found.look()
        assert found.runs == []
        for name in ("..", "../work", "nothing"):
            with pytest.raises(SliceworksError, match="there is no run"):
                await found.report(name)

    clock.run(main())


class _Made:
    """An environment of which two stages are made, and one thing was changed by somebody."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.site: Any = self

    def outputs(self, *, drift: bool) -> Iterator[tuple[Any, Object, dict[str, str]]]:
        for stage in stages(self._environment):
            made = {"google_storage_bucket.state": "update" if drift else ""} if stage.name != "1-base" else {}
            yield stage, {"token": "hunter2", "name": stage.name}, made

    def listed(self, outputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [("queues", str(Identity("v1", "Namespace", "", "team")))]

    def compare(self, outputs: Mapping[str, Any]) -> list[Outcome]:
        return [Outcome("queues", Identity("v1", "Namespace", "", "team"), "create")]


def test_an_environment_is_read_from_its_document_and_asked_for_drift(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text(EXAMPLE.read_text())
    (tmp_path / "broken.yaml").write_text(
        "apiVersion: sliceworks.dev/v1alpha1\nkind: Environment\nmetadata: {name: x}\nspec: {projekt: y}\n"
    )
    (tmp_path / "other.yaml").write_text("kind: ConfigMap\n")
    found = Environments(tmp_path, lambda environment, _file: _Made(environment))

    async def main() -> None:
        await found.look()
        assert found.known is not None
        [(name, known)] = found.known.items()
        assert [each.name for each in planned(known.environment)] == ["0-bootstrap", "1-base", "2-cluster"]
        assert len(found.broken) == 1
        assert "broken.yaml:4" in found.broken[0]
        await found.ask(name, drift=False)
        assert [each.state for each in known.stages] == ["as made", "not made", "as made", "as made"]
        await asyncio.gather(found.ask(name, drift=True), found.ask(name, drift=True))
        assert [each.state for each in known.stages] == ["1 drifted", "not made", "1 drifted", "1 drifted"]
        assert "hunter2" not in str(known.stages)
        assert (known.busy, known.said, known.drift) == (False, "", True)

    clock.run(main())


def test_what_cannot_be_asked_is_told_and_a_console_without_a_way_asks_nothing(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text(EXAMPLE.read_text())

    def nowhere(environment: Environment, file: Path) -> _Made:
        raise SliceworksError("Terraform is not installed", hint="install terraform or tofu")

    async def main() -> None:
        found = Environments(tmp_path, nowhere)
        await found.look()
        assert found.known is not None
        await found.ask("training", drift=True)
        assert found.known["training"].said == "Terraform is not installed (install terraform or tofu)"
        await found.ask("other", drift=True)
        assert not Environments(tmp_path, None).can_look

    clock.run(main())


def _all(node: Node, tag: str) -> Iterator[Object]:
    if isinstance(node, list):
        if node[0] == tag:
            yield node[1]
        for child in node[2:]:
            yield from _all(child, tag)


def test_a_console_that_only_looks_has_every_button_of_a_rehearsal_switched_off() -> None:
    pace, now = Pace(datetime(2026, 1, 5, tzinfo=UTC), 60.0, False), datetime(2026, 1, 5, tzinfo=UTC)
    fields = {"slice": "", "lasting": "0"}
    for allowed in (False, True):
        shown = [rehearsal_nodes.time(pace, now, "", allowed=allowed), rehearsal_nodes.hands([], [], fields, allowed=allowed)]
        buttons = [button for node in shown for button in _all(node, "button")]
        assert len(buttons) == 5 + len(FAULTS)
        assert all(("disabled" in button) != allowed for button in buttons)
    own = list(_all(rehearsal_nodes.time(Pace(now, None, False), now, "", allowed=True), "button"))
    assert all("disabled" in button for button in own)


def test_where_there_is_no_twin_it_says_how_to_have_one() -> None:
    assert "sliceworks twin start --speed 60" in str(rehearsal_nodes.top(False, None))
    assert "Looking" in str(rehearsal_nodes.top(None, None))
    assert "Nothing has happened yet" in str(rehearsal_nodes.moments(Diary(), [], ""))
