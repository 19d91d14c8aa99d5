"""The page of one model service, as far as no cluster is needed for it."""

from __future__ import annotations

from tests.support.model_services import example

from sliceworks.cli import model_page
from sliceworks.serving.cluster import Seen
from sliceworks.serving.record import Record
from sliceworks.serving.scaling import Scaling
from sliceworks.serving.standing import Standing
from sliceworks.serving.why import Cause


def test_autoscalers_and_why_they_do_not_scale() -> None:
    record = Record(example("densenet-triton"), {}, frozenset(), "uid", "2026-11-15T10:00:00Z", "triton")
    trouble = Cause("horizontalpodautoscaler/densenet", "no metrics", "install an adapter")
    scalings = (Scaling("densenet", "1 of 1–3", "fails", trouble), Scaling("gateway", "2 of 2–5", "4% of 70% cpu"))
    seen = Seen(record, Standing(()), (), (), (Cause("pod/a", "too large"),), scalings)
    page = model_page.render(seen)
    assert "densenet     1 of 1–3   fails\ngateway      2 of 2–5   4% of 70% cpu\n" in page
    assert page.endswith(
        "\nnot ready: pod/a: too large\nnot scaled: horizontalpodautoscaler/densenet: no metrics\n            install an adapter\n"
    )
    told = model_page.data(seen)["autoscalers"]
    assert told[0] == {
        "name": "densenet",
        "replicas": "1 of 1–3",
        "state": "fails",
        "trouble": {"object": "horizontalpodautoscaler/densenet", "words": "no metrics", "remedy": "install an adapter"},
    }
    assert told[1]["trouble"] is None


def test_what_a_deployment_that_nobody_waited_for_has_left() -> None:
    left = ("apply httproute/densenet", "remove service/densenet-canary")
    record = Record(example("densenet-triton"), {}, frozenset(), "uid", "2026-11-15T10:00:00Z", "triton", left)
    seen = Seen(record, Standing(()), (), (), ())
    assert model_page.render(seen).endswith(
        "\nleft to do: apply httproute/densenet, remove service/densenet-canary\n"
        "            `sliceworks models deploy -f FILE -n triton` waits for what must come before, and does it\n"
    )
    assert model_page.data(seen)["left"] == list(left)
