"""Our gateway compared with nginx and LiteLLM's proxy, in front of the same echo model, one after the other on the same core.

    python bench/gateway.py [--quick | --large] [--ours-only] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"throughput_litellm": {"ratio": 9.1, "goal": 5.0}, …}`. If the baseline
is a limit, such as a millisecond, the ratio is limit divided by measured value. LiteLLM is installed into the cache once.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import orjson
from bench.harness import gateways, machine
from bench.harness.command import Profiles, Script
from bench.harness.http_load import HttpLoad, request
from bench.harness.metric import Metric, limit, percentile
from bench.harness.stream_load import StreamWorkers

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from argparse import Namespace


@dataclass(frozen=True, slots=True)
class Sizes:
    """Repetitions, durations, and numbers of connections, streams and requests."""

    repeats: int = 3
    seconds: float = 5.0
    half_load_runs: int = 10
    half_load_seconds: float = 3.0
    connections: int = 64
    streams: int = 1000
    token_time: float = 0.02
    """Seconds between two tokens of a stream."""
    stream_seconds: float = 5.0
    requests: int = 100_000
    search: bool = True
    """Search for the highest number of streams that meets the goal, if the full number misses it."""


FULL = Sizes()
QUICK = Sizes(repeats=1, seconds=1.5, half_load_runs=3, half_load_seconds=1.0, stream_seconds=2.0, requests=20_000, search=False)
TINY = Sizes(
    repeats=1,
    seconds=0.3,
    half_load_runs=1,
    half_load_seconds=0.3,
    connections=4,
    streams=10,
    stream_seconds=0.5,
    requests=400,
    search=False,
)
NORMAL = Sizes(repeats=1, half_load_runs=1, search=False)
LARGE = Sizes(repeats=1, half_load_runs=1, connections=640, streams=10_000, token_time=0.2, requests=1_000_000, search=False)
_PATH = "/v1/chat/completions"


def _body(size: int, **fields: object) -> bytes:
    messages = [{"role": "user", "content": "word " * (size // 5)}]
    return orjson.dumps({"messages": messages, "model": gateways.MODEL, "max_tokens": 16, **fields})


def new_metrics(sizes: Sizes) -> dict[str, Metric]:
    """The metrics with their goals."""
    metrics = (
        Metric("throughput_litellm", "requests per CPU second, LiteLLM", 5),
        Metric("throughput_nginx", "requests per CPU second, nginx", 0.25, amount=1),
        limit("latency_p50", "ms added at half load, p50", 1.0),
        limit("latency_p99", "ms added at half load, p99 without noise, 9 of 10 runs", 2.0),
        limit("token_p99", f"ms added to a token, {sizes.streams:,} streams, p99", 2.0),
        Metric("token_cpu", f"CPU µs per token, {sizes.streams:,} streams, nginx", 0.5, lower_is_better=True, amount=1),
        Metric("separate_tokens", "share of tokens not coalesced", 1, baseline=[1.0]),
        limit("prompt_cost", "times the CPU time, 200 KB and 1 KB", 2.0),
        limit("memory_growth", f"times the memory, {sizes.requests:,} requests", 1.1),
    )
    return {metric.name: metric for metric in metrics}


def scheduling_noise(direct: list[float], relayed: list[float]) -> float:
    """How much longer the tail of a relay is than that of the model alone, from p50 to p99.

    The relay does the same little work for each request, so what makes one request slower than another is the machine.
    """
    return max(0.0, (relayed[1] - relayed[0]) - (direct[1] - direct[0]))


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, folder: Path, *, ours_only: bool = False) -> None:
        self.sizes, self.folder, self.ours_only = sizes, folder, ours_only
        self.metrics = new_metrics(sizes)

    def run(self) -> list[Metric]:
        """Run all benchmarks."""
        cores = [gateways.GATEWAY_CORE, gateways.CLIENT_CORE]
        progress.say(f"machine   {machine.measure_steal_time(cores, self.sizes.seconds / 2)}")
        affinity = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {gateways.CLIENT_CORE})
        model = gateways.echo(self.folder)
        try:
            for _ in range(self.sizes.repeats):
                self._throughput(model)
            self._half_load(model)
            self._prompt_cost(model)
            self._memory_growth(model)
        finally:
            model.stop()
            os.sched_setaffinity(0, affinity)
        self._streams()
        return list(self.metrics.values())

    def _throughput(self, model: gateways.ServerProcess) -> None:
        """Closed loop. The clients and the model share a core and may be the bottleneck, so throughput is per CPU second."""
        rates: dict[str, float] = {"direct": self._rate(model.port)}
        per_cpu: dict[str, float] = {}
        starters: list[gateways.Starter] = [gateways.ours] if self.ours_only else [gateways.ours, gateways.nginx, gateways.litellm]
        for start in starters:
            server = start(self.folder, model.port)
            if server is None:
                continue
            try:
                before = server.cpu_seconds()
                rates[server.name] = self._rate(server.port)
                per_cpu[server.name] = self._count / max(server.cpu_seconds() - before, 0.01)
            finally:
                server.stop()
        progress.say("requests  " + "  ".join(f"{name} {rate:,.0f}/s" for name, rate in rates.items()))
        progress.say("per core  " + "  ".join(f"{name} {rate:,.0f}/s" for name, rate in per_cpu.items()))
        for peer in ("litellm", "nginx"):
            metric = self.metrics[f"throughput_{peer}"]
            metric.values.append(per_cpu["ours"])
            if peer in per_cpu:
                metric.baseline.append(per_cpu[peer])
        self._last_rate = rates["ours"]

    def _rate(self, port: int) -> float:
        load = HttpLoad(port, request(_PATH, _body(1000)))
        rate = clock.run(load.closed_loop(self.sizes.connections, self.sizes.seconds))
        if load.failed:
            raise SystemExit(f"{load.failed} requests failed")
        self._count = load.count
        return rate

    def _half_load(self, model: gateways.ServerProcess) -> None:
        """Open loop at half of the throughput: added latency, counted from the time at which a request was due.

        At p99 most of it is time in which the machine ran none of the processes. A relay on the gateway's core, before and after,
        shows how much: see `scheduling_noise`. The metric is the value that nine of ten runs reach.
        """
        servers = [gateways.relay(self.folder, model.port)]
        try:
            servers += [server for start in self._starters() if (server := start(self.folder, model.port)) is not None]
            added = [self._half_load_run(model, servers) for _ in range(self.sizes.half_load_runs)]
        finally:
            for server in servers:
                server.stop()
        self.metrics["latency_p50"].values += [run[0] for run in added]
        self.metrics["latency_p99"].values.append(sorted(run[1] for run in added)[math.ceil(0.9 * len(added)) - 1])

    def _half_load_run(self, model: gateways.ServerProcess, servers: list[gateways.ServerProcess]) -> tuple[float, float]:
        """Milliseconds that our gateway adds, p50 and p99, the latter without the noise of the machine."""
        relay, *others = servers
        order = [("direct", model.port), ("before", relay.port), *((server.name, server.port) for server in others)]
        latencies = {name: self._open_loop(port) for name, port in [*order, ("after", relay.port)]}
        self._say("half load", latencies)
        direct, ours = latencies["direct"], latencies["ours"]
        noise = min(scheduling_noise(direct, latencies[name]) for name in ("before", "after"))
        p99 = ours[1] - direct[1]
        progress.say(f"half load ours adds p99 {p99:.2f} ms, of which {min(noise, max(p99, 0)):.2f} ms are noise of the machine")
        return max(0.01, ours[0] - direct[0]), max(0.01, p99 - noise)

    def _open_loop(self, port: int) -> list[float]:
        """Milliseconds at half load, p50 and p99."""
        load = HttpLoad(port, request(_PATH, _body(1000)))
        # A new process is slower in its first tenths of a second.
        clock.run(load.open_loop(self._last_rate / 2, self.sizes.half_load_seconds, warm_up=self.sizes.half_load_seconds / 5))
        return [percentile(load.latencies, share) * 1000 for share in (0.5, 0.99)]

    def _starters(self) -> list[gateways.Starter]:
        return [gateways.ours] if self.ours_only else [gateways.nginx, gateways.ours]

    def _say(self, topic: str, percentiles: dict[str, list[float]]) -> None:
        shown = "  ".join(f"{name} p50 {median:.2f} p99 {p99:.2f} ms" for name, (median, p99) in percentiles.items())
        progress.say(f"{topic:9} {shown}")

    def _prompt_cost(self, model: gateways.ServerProcess) -> None:
        """CPU time per request for long and short prompts; nginx, which does not read bodies, for comparison."""
        for start in self._starters():
            server = start(self.folder, model.port)
            if server is None:
                continue
            try:
                short, long = self._cpu_per_request(server)
            finally:
                server.stop()
            progress.say(f"prompts   {server.name} {short * 1e6:.0f} µs of CPU for 1 KB, {long * 1e6:.0f} µs for 200 KB")
        self.metrics["prompt_cost"].values.append(long / short)

    def _cpu_per_request(self, server: gateways.ServerProcess) -> list[float]:
        """CPU seconds per request for short and long prompts, alternating and at the same rate.

        A closed loop would compare a busy gateway with one that waits, has cold caches, and wakes up for single requests.
        """
        sizes = (1000, 200_000)
        load = HttpLoad(server.port, request(_PATH, _body(sizes[1])))
        rate = clock.run(load.closed_loop(8, self.sizes.seconds / 3)) / 2
        used, count = [0.0, 0.0], [0, 0]
        for _ in range(3):
            for index, size in enumerate(sizes):
                load = HttpLoad(server.port, request(_PATH, _body(size)))
                before = server.cpu_seconds()
                clock.run(load.open_loop(rate, self.sizes.seconds / 3, connections=8))
                used[index] += server.cpu_seconds() - before
                count[index] += load.count
        # The kernel counts CPU time in hundredths of a second.
        return [max(0.01, seconds) / max(1, number) for seconds, number in zip(used, count, strict=True)]

    def _memory_growth(self, model: gateways.ServerProcess) -> None:
        server = gateways.ours(self.folder, model.port)
        try:
            resident = []
            for share in (0.1, 0.9):
                load = HttpLoad(server.port, request(_PATH, _body(1000)))
                clock.run(load.closed_loop(self.sizes.connections, share * self.sizes.requests / self._last_rate))
                resident.append(server.resident_bytes())
        finally:
            server.stop()
        before, after = (size / 1e6 for size in resident)
        progress.say(f"memory    {before:.1f} MB after a tenth of {self.sizes.requests:,} requests, {after:.1f} MB after all")
        self.metrics["memory_growth"].values.append(after / before)

    def _streams(self) -> None:
        """Delay that the gateway adds to tokens, which carry the time at which the backend sent them."""
        metric, count = self.metrics["token_p99"], self.sizes.streams
        for _ in range(self.sizes.repeats):
            metric.values.append(self._added_delay(gateways.ours, count))
        if not self.ours_only:
            self._added_delay(gateways.nginx, count)
        goal = metric.baseline[0]
        while self.sizes.search and min(metric.values) > goal and count > self.sizes.streams // 4:
            count -= self.sizes.streams // 4
            if self._added_delay(gateways.ours, count, record=False) <= goal:
                tokens = count / self.sizes.token_time
                progress.say(f"streams   {count:,} streams, {tokens:,.0f} tokens/s: at most {goal:g} ms added (p99)")
                break

    def _added_delay(self, start: gateways.Starter, count: int, *, record: bool = True) -> float:
        """Milliseconds that a gateway adds to a token, p99."""
        workers = StreamWorkers(gateways.OTHER_CORES, gateways.MODEL, self.sizes.token_time)
        try:
            server = start(self.folder, *workers.ports)
            if server is None:
                return 0.0
            try:
                delays = self._delays(workers, server, count, record=record)
            finally:
                server.stop()
        finally:
            workers.stop()
        self._say("streams", delays)
        return max(0.01, delays[server.name][1] - delays["direct"][1])

    def _delays(
        self, workers: StreamWorkers, server: gateways.ServerProcess, count: int, *, record: bool
    ) -> dict[str, list[float]]:
        sent = request(_PATH, _body(100, stream=True, max_tokens=3000))
        delays = {}
        for name, ports in (("direct", workers.ports), (server.name, [server.port])):
            workers.open(ports, sent, count)
            before, started = server.cpu_seconds(), time.perf_counter()
            result = workers.receive(self.sizes.stream_seconds)
            used, elapsed = server.cpu_seconds() - before, time.perf_counter() - started
            workers.close()
            delays[name] = [percentile(result.delays, share) * 1000 for share in (0.5, 0.99)]
            rate = len(result.delays) / self.sizes.stream_seconds
            progress.say(
                f"streams   {name} {rate:,.0f} tokens/s, {result.coalesced} coalesced, {used / elapsed:.0%} of the gateway's core"
            )
        if record:
            cpu, ours = self.metrics["token_cpu"], server.name == "ours"
            (cpu.values if ours else cpu.baseline).append(1e6 * max(used, 0.01) / max(len(result.delays), 1))
            if ours:
                self.metrics["separate_tokens"].values.append(1 - result.coalesced / max(1, len(result.delays)))
        return delays


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks at this size."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        return Bench(sizes, Path(folder), ours_only=options.no_peers).run()


SCRIPT = Script(
    "gateway",
    "Our gateway compared with nginx and LiteLLM's proxy, in front of the same echo model, each on the same core.",
    Profiles(FULL, QUICK, TINY, LARGE, NORMAL),
    measure,
    ("limit or peer", "ours"),
    peers="--ours-only",
)

if __name__ == "__main__":
    SCRIPT.main()
