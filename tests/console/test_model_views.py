"""Live latency from a gateway's metrics, and model services from their records."""

from typing import Any

import pytest
from tests.support.model_services import service

from sliceworks.console.pages import model_detail
from sliceworks.console.views import latency_view, model_view
from sliceworks.serving import record as records
from sliceworks.serving.cluster import ServiceDetails
from sliceworks.serving.gateway.telemetry import GatewayMetrics
from sliceworks.serving.record import LABEL
from sliceworks.serving.service_status import compute_status


def counted(measures: GatewayMetrics, seconds: float, times: int, code: str = "200") -> None:
    for _ in range(times):
        measures.requests.inc("llama", "r", "k", code)
        measures.vllm_e2e_latency.observe(seconds, "llama")
        measures.vllm_ttft.observe(seconds / 10, "llama")


def test_latency_covers_the_interval_between_two_samples() -> None:
    measures = GatewayMetrics()
    measures.registry.gauge_vec("vllm:num_requests_running", "x", "model_name", lambda: {"llama": 3, "other": 9})
    counted(measures, 40.0, 100)
    before = latency_view.parse_metrics([measures.registry.render()], at=10.0)
    counted(measures, 0.2, 98)
    counted(measures, 4.0, 2, "500")
    after = latency_view.parse_metrics([measures.registry.render()], at=20.0)
    result = latency_view.latency_between(before, after, "llama")
    assert result.rate == pytest.approx(10.0)
    assert result.errors == pytest.approx(0.02)
    assert result.whole is not None
    assert 0.1 < result.whole[0] <= 0.25
    assert 2.5 < result.whole[1] <= 5.0
    assert result.running == 3
    assert latency_view.latency_between(after, after, "llama").whole is None
    assert latency_view.latency_between(before, after, "missing") == latency_view.Latency()


def test_restarted_gateway_counts_from_zero_and_gateways_add_up() -> None:
    old, new, other = GatewayMetrics(), GatewayMetrics(), GatewayMetrics()
    counted(old, 1.0, 50)
    counted(new, 0.2, 10)
    counted(other, 0.2, 10)
    before = latency_view.parse_metrics([old.registry.render()], at=0.0)
    after = latency_view.parse_metrics([new.registry.render(), other.registry.render()], at=1.0)
    result = latency_view.latency_between(before, after, "llama")
    assert result.whole is not None
    assert result.whole[1] <= 0.25
    assert result.rate == 0.0


def test_unreadable_metrics_are_skipped() -> None:
    reading = latency_view.parse_metrics(
        ['# HELP x\nx{a="b\\"c"} 1\nsliceworks_gateway_backend_up{backend="s"} 0\nwhat is this\ny nope\n'], at=0.0
    )
    assert reading.series["x"] == [({"a": 'b\\"c'}, 1.0)]
    assert reading.backends() == {"s": False}


@pytest.mark.parametrize(("share", "expected"), [(0.5, 1.0), (0.75, 1.5), (1.0, 2.0)])
def test_quantile_is_within_its_bucket(share: float, expected: float) -> None:
    assert latency_view.quantile([(1.0, 5), (2.0, 10), (float("inf"), 10)], share) == pytest.approx(expected)


def test_pending_steps_of_a_deployment_are_shown() -> None:
    model = service("triton", "triton: {repository: /models, models: [{name: parrot}]}")
    document = model.model_dump(by_alias=True, exclude_unset=True, mode="json")
    kept = records.to_config_map(model, document, [], ["apply httproute/served"])
    kept["metadata"] |= {"namespace": "ml", "uid": "u", "creationTimestamp": "2026-11-15T10:00:00Z"}
    [listed], broken = model_view.services([kept], [])
    assert (listed.state, listed.tone, broken) == ("unfinished", "wait", [])
    record = records.from_config_map(kept)
    result = model_view.details(ServiceDetails(record, compute_status(record, []), (), (), ()))
    assert result.pending == ("apply httproute/served",)
    shown = str(model_detail.pending_steps(result))
    assert "apply httproute/served" in shown
    assert "sliceworks models deploy -f FILE -n ml" in shown


def test_corrupt_record_is_reported_and_others_are_shown() -> None:
    spoilt: dict[str, Any] = {
        "metadata": {"name": "x-model-service", "namespace": "ml", "labels": {LABEL: "model-service"}},
        "data": {},
    }
    other = {"metadata": {"name": "settings", "namespace": "ml"}}
    result, broken = model_view.services([spoilt, other], [])
    assert not result
    assert broken == ["namespace ml: configmap/x-model-service: document.yaml is missing"]


def test_pod_of_a_crashing_server_is_not_running() -> None:
    waiting = {"name": "triton", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running", "containerStatuses": [waiting]}}
    assert model_view._pod(pod) == ("p", "CrashLoopBackOff", "n")
    pod["status"] = {"phase": "Running"}
    assert model_view._pod(pod) == ("p", "not ready", "n")
