"""Updates validate only what they change."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.twin.apiserver.validation import pod

PODS = "/api/v1/namespaces/default/pods"
A_POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "example.com/image:1"}]}}
COST = "controller.kubernetes.io/pod-deletion-cost"


@pytest.fixture(name="validated")
def validated_specs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pods whose specs were validated."""
    names: list[str] = []
    validate = pod.validate_pod_spec

    def record(errors: Any, spec: Any, path: str, pod_name: str | None = None) -> None:
        names.append(pod_name or "")
        validate(errors, spec, path, pod_name)

    monkeypatch.setattr(pod, "validate_pod_spec", record)
    return names


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({"metadata": {"annotations": {"example.com/step": "1"}}}, 0),
        ({"metadata": {"labels": {"app": "a"}}}, 0),
        ({"metadata": {"annotations": {"example.com/step": "1"}}, "spec": {"activeDeadlineSeconds": 60}}, 1),
    ],
)
def test_labels_and_annotations_do_not_validate_the_spec(validated: list[str], change: Any, count: int) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", PODS, A_POD)
        assert validated == ["a"]
        await twin.do("PATCH", f"{PODS}/a", change)
        assert len(validated) == 1 + count

    run_on_twin(main)


def test_changed_annotations_are_validated() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", PODS, A_POD)
        status, error = await twin.ask("PATCH", f"{PODS}/a", {"metadata": {"annotations": {COST: "much"}}})
        assert status == 422
        assert [cause["field"] for cause in error["details"]["causes"]] == [f"metadata.annotations[{COST}]"]

    run_on_twin(main)
