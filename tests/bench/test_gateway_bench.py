"""The gateway benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

import orjson
from bench.gateway import scheduling_noise
from tests.support import bench_script

NAMES = [
    "throughput_litellm",
    "throughput_nginx",
    "latency_p50",
    "latency_p99",
    "token_p99",
    "token_cpu",
    "separate_tokens",
    "prompt_cost",
    "memory_growth",
]


def test_own_gateway_only() -> None:
    done = bench_script.run("gateway", "--tiny", "--ours-only")
    results = orjson.loads(done.stdout.splitlines()[-1])
    assert list(results) == NAMES
    assert all(set(result) == {"ratio", "goal"} for result in results.values())
    assert results["throughput_nginx"]["ratio"] is None
    assert results["separate_tokens"]["ratio"] == 1.0
    assert "streams   ours" in done.stderr
    assert "machine   steal time" in done.stderr
    assert "are noise of the machine" in done.stderr


def test_noise_is_the_longer_tail_of_the_relay() -> None:
    assert scheduling_noise([0.2, 1.0], [0.5, 4.3]) == 3.0
    assert scheduling_noise([0.2, 5.0], [0.5, 4.3]) == 0.0
