"""Live latency from a gateway's numbers, and model services from their records."""

from typing import Any

import pytest
from tests.support.model_services import service

from sliceworks.console.pages import one_model
from sliceworks.console.views import latencies, models
from sliceworks.serving import record as records
from sliceworks.serving.cluster import Seen
from sliceworks.serving.gateway.measures import Measures
from sliceworks.serving.record import LABEL
from sliceworks.serving.standing import standing


def counted(measures: Measures, seconds: float, times: int, code: str = "200") -> None:
    for _ in range(times):
        measures.requests.add("llama", "r", "k", code)
        measures.vllm_whole.observe(seconds, "llama")
        measures.vllm_first.observe(seconds / 10, "llama")


def test_latency_is_that_of_what_came_between_two_readings() -> None:
    measures = Measures()
    measures.registry.gauges("vllm:num_requests_running", "x", "model_name", lambda: {"llama": 3, "other": 9})
    counted(measures, 40.0, 100)
    before = latencies.read([measures.registry.text()], at=10.0)
    counted(measures, 0.2, 98)
    counted(measures, 4.0, 2, "500")
    after = latencies.read([measures.registry.text()], at=20.0)
    found = latencies.between(before, after, "llama")
    assert found.rate == pytest.approx(10.0)
    assert found.errors == pytest.approx(0.02)
    assert found.whole is not None
    assert 0.1 < found.whole[0] <= 0.25
    assert 2.5 < found.whole[1] <= 5.0
    assert found.running == 3
    assert latencies.between(after, after, "llama").whole is None
    assert latencies.between(before, after, "nobody") == latencies.Latency()


def test_a_gateway_that_has_started_anew_counts_from_nothing_and_several_gateways_add_up() -> None:
    old, new, other = Measures(), Measures(), Measures()
    counted(old, 1.0, 50)
    counted(new, 0.2, 10)
    counted(other, 0.2, 10)
    before = latencies.read([old.registry.text()], at=0.0)
    after = latencies.read([new.registry.text(), other.registry.text()], at=1.0)
    found = latencies.between(before, after, "llama")
    assert found.whole is not None
    assert found.whole[1] <= 0.25
    assert found.rate == 0.0


def test_numbers_that_nobody_can_read_are_passed_over() -> None:
    reading = latencies.read(
        ['# HELP x\nx{a="b\\"c"} 1\nsliceworks_gateway_backend_up{backend="s"} 0\nwhat is this\ny nope\n'], at=0.0
    )
    assert reading.series["x"] == [({"a": 'b\\"c'}, 1.0)]
    assert reading.backends() == {"s": False}


@pytest.mark.parametrize(("share", "expected"), [(0.5, 1.0), (0.75, 1.5), (1.0, 2.0)])
def test_a_quantile_lies_within_its_bucket(share: float, expected: float) -> None:
    assert latencies.quantile([(1.0, 5), (2.0, 10), (float("inf"), 10)], share) == pytest.approx(expected)


def test_what_a_deployment_has_left_to_do_is_shown() -> None:
    model = service("triton", "triton: {repository: /models, models: [{name: parrot}]}")
    document = model.model_dump(by_alias=True, exclude_unset=True, mode="json")
    kept = records.write(model, document, [], ["apply httproute/served"])
    kept["metadata"] |= {"namespace": "ml", "uid": "u", "creationTimestamp": "2026-11-15T10:00:00Z"}
    [listed], broken = models.services([kept], [])
    assert (listed.state, listed.tone, broken) == ("unfinished", "wait", [])
    record = records.read(kept)
    found = models.details(Seen(record, standing(record, []), (), (), ()))
    assert found.left == ("apply httproute/served",)
    shown = str(one_model.left_to_do(found))
    assert "apply httproute/served" in shown
    assert "sliceworks models deploy -f FILE -n ml" in shown


def test_a_record_that_somebody_has_spoilt_is_told_of_and_others_stay() -> None:
    spoilt: dict[str, Any] = {
        "metadata": {"name": "x-model-service", "namespace": "ml", "labels": {LABEL: "model-service"}},
        "data": {},
    }
    other = {"metadata": {"name": "settings", "namespace": "ml"}}
    found, broken = models.services([spoilt, other], [])
    assert not found
    assert broken == ["In ml: configmap/x-model-service: document.yaml is missing"]
