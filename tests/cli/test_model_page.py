"""The output for one model service, as far as it needs no cluster."""

from __future__ import annotations

from tests.support.model_services import example

from sliceworks.cli import models
from sliceworks.kube.pod_diagnosis import Cause
from sliceworks.serving.cluster import ServiceDetails
from sliceworks.serving.record import Record
from sliceworks.serving.service_status import AutoscalerStatus, ServiceStatus


def test_autoscaler_conditions_are_shown() -> None:
    record = Record(example("densenet-triton"), {}, frozenset(), "uid", "2026-11-15T10:00:00Z", "triton")
    trouble = Cause("horizontalpodautoscaler/densenet", "no metrics", "install an adapter")
    scalings = (
        AutoscalerStatus("densenet", "1 of 1–3", "fails", trouble),
        AutoscalerStatus("gateway", "2 of 2–5", "4% of 70% cpu"),
    )
    seen = ServiceDetails(record, ServiceStatus(()), (), (), (Cause("pod/a", "too large"),), scalings)
    page = models.describe_service(seen)
    assert "densenet     1 of 1–3   fails\ngateway      2 of 2–5   4% of 70% cpu\n" in page
    assert page.endswith(
        "\nnot ready: pod/a: too large\nnot scaled: horizontalpodautoscaler/densenet: no metrics\n            install an adapter\n"
    )
    reported = models.service_data(seen)["autoscalers"]
    assert reported[0] == {
        "name": "densenet",
        "replicas": "1 of 1–3",
        "state": "fails",
        "cause": {"object": "horizontalpodautoscaler/densenet", "message": "no metrics", "hint": "install an adapter"},
    }
    assert reported[1]["cause"] is None


def test_pending_steps_of_a_deployment_are_shown() -> None:
    left = ("apply httproute/densenet", "remove service/densenet-canary")
    record = Record(example("densenet-triton"), {}, frozenset(), "uid", "2026-11-15T10:00:00Z", "triton", left)
    seen = ServiceDetails(record, ServiceStatus(()), (), (), ())
    assert models.describe_service(seen).endswith(
        "\npending: apply httproute/densenet, remove service/densenet-canary\n"
        "            run `sliceworks models deploy -f FILE -n triton` to finish\n"
    )
    assert models.service_data(seen)["pendingSteps"] == list(left)
