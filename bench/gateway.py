"""Our gateway beside nginx and LiteLLM's proxy, in front of the same echo model, one after the other, each on the same core.

    python bench/gateway.py [--quick] [--ours-only] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"unary_litellm": {"ratio": 9.1, "goal": 5.0}, …}`. Where a goal is a
bound, such as a millisecond, the ratio says how many times below it we are. LiteLLM is installed into the cache once.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import orjson
from bench.measure import gateways, program, standstill
from bench.measure.crowd import Crowd
from bench.measure.http_load import Load, at, request
from bench.measure.results import Measure

from sliceworks.base import clock, progress


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    repeats: int = 3
    seconds: float = 5.0
    connections: int = 64
    streams: int = 1000
    stream_seconds: float = 5.0
    requests: int = 100_000
    fewer: bool = True
    """Whether fewer streams are tried, where so many miss the goal."""


QUICK = Sizes(repeats=1, seconds=2.0, stream_seconds=3.0, requests=20_000)
TINY = Sizes(repeats=1, seconds=0.3, connections=4, streams=10, stream_seconds=0.5, requests=400, fewer=False)
_PATH = "/v1/chat/completions"


def _body(size: int, **more: object) -> bytes:
    text = "word " * (size // 5)
    messages = [{"role": "user", "content": text}]
    return orjson.dumps({"messages": messages, "model": gateways.MODEL, "max_tokens": 16, **more})


def measures() -> dict[str, Measure]:
    """What is compared, with the goals."""
    listed = (
        Measure("unary_litellm", "requests per second of its core", 5),
        Measure("unary_nginx", "requests per second of its core", 0.25),
        Measure("added_p50", "ms at half load", 1, less_is_better=True, real=[1.0]),
        Measure("added_p99", "ms at half load", 1, less_is_better=True, real=[5.0]),
        Measure("stream_p99", "ms added to a token", 1, less_is_better=True, real=[2.0]),
        Measure("stream_apart", "share of tokens sent apart", 1, real=[1.0]),
        Measure("long_prompt", "cost of 200 KB to 1 KB", 1, less_is_better=True, real=[2.0]),
        Measure("memory", "memory after to before", 1, less_is_better=True, real=[1.1]),
    )
    return {measure.name: measure for measure in listed}


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, folder: Path, *, ours_only: bool = False) -> None:
        self.sizes, self.folder, self.ours_only = sizes, folder, ours_only
        self.found = measures()

    def run(self) -> list[Measure]:
        """Measure each on its own, then ours in more ways."""
        progress.say(f"machine   {standstill.watch([gateways.OURS, gateways.THEIRS], self.sizes.seconds / 2)}")
        os.sched_setaffinity(0, {gateways.THEIRS})
        model = gateways.echo(self.folder)
        try:
            for _ in range(self.sizes.repeats):
                self._unary(model)
            self._half_load(model)
            self._long_prompt(model)
            self._memory(model)
        finally:
            model.stop()
        self._streams()
        return list(self.found.values())

    def _unary(self, model: gateways.Running) -> None:
        rates: dict[str, float] = {"direct": self._rate(model.port)}
        each: dict[str, float] = {}
        makers: list[gateways.Maker] = [gateways.ours] if self.ours_only else [gateways.ours, gateways.nginx, gateways.litellm]
        for make in makers:
            server = make(self.folder, model.port)
            if server is None:
                continue
            try:
                before = server.cpu_seconds()
                rates[server.name] = self._rate(server.port)
                each[server.name] = self._count / max(server.cpu_seconds() - before, 0.01)
            finally:
                server.stop()
        progress.say("unary     " + "  ".join(f"{name} {rate:,.0f}/s" for name, rate in rates.items()))
        progress.say("per core  " + "  ".join(f"{name} {rate:,.0f}/s" for name, rate in each.items()))
        # The load and the model share a core and may be the bound: what a second of the proxy's own core does is what counts.
        for peer in ("litellm", "nginx"):
            if peer in each:
                self.found[f"unary_{peer}"].real.append(each[peer])
                self.found[f"unary_{peer}"].twin.append(each["ours"])
        self._last_rate = rates["ours"]

    def _rate(self, port: int) -> float:
        load = Load(port, request(_PATH, _body(1000)))
        rate = clock.run(load.full(self.sizes.connections, self.sizes.seconds))
        assert not load.failed, f"{load.failed} requests failed"
        self._count = load.count
        return rate

    def _half_load(self, model: gateways.Running) -> None:
        """Latency from when requests were meant to be sent, with the gateway and without it; and with nginx, to compare with."""
        servers = [server for make in self._makers() if (server := make(self.folder, model.port)) is not None]
        try:
            for _ in range(self.sizes.repeats):
                times = {}
                for name, port in [("direct", model.port), *((server.name, server.port) for server in servers)]:
                    load = Load(port, request(_PATH, _body(1000)))
                    # In its first tenths of a second a new process is not yet as quick as it will be.
                    clock.run(load.paced(self._last_rate / 2, self.sizes.seconds, settling=self.sizes.seconds / 5))
                    times[name] = [at(load.times, share) * 1000 for share in (0.5, 0.99)]
                self._say("half load", times)
                for place, name in enumerate(("added_p50", "added_p99")):
                    self.found[name].twin.append(max(0.01, times["ours"][place] - times["direct"][place]))
        finally:
            for server in servers:
                server.stop()

    def _makers(self) -> list[gateways.Maker]:
        """Ours, and nginx beside it."""
        return [gateways.ours] if self.ours_only else [gateways.nginx, gateways.ours]

    def _say(self, what: str, times: dict[str, list[float]]) -> None:
        shown = "  ".join(f"{name} p50 {middle:.2f} p99 {last:.2f} ms" for name, (middle, last) in times.items())
        progress.say(f"{what:9} {shown}")

    def _long_prompt(self, model: gateways.Running) -> None:
        """Processor time of the gateway for one request, long and short; and of nginx, which looks at no body, to compare with."""
        for make in self._makers():
            server = make(self.folder, model.port)
            if server is None:
                continue
            try:
                short, long = self._costs(server)
            finally:
                server.stop()
            progress.say(f"prompts   {server.name} {short * 1e6:.0f} µs of its core for 1 KB, {long * 1e6:.0f} µs for 200 KB")
        self.found["long_prompt"].twin.append(long / short)

    def _costs(self, server: gateways.Running) -> list[float]:
        """Seconds of its core for a short request and for a long one, in turn and at the same pace.

        Each as fast as it goes would compare a proxy that is busy with one that waits: who waits has cold caches, and does for one
        request alone what it else does for many at once.
        """
        sizes = (1000, 200_000)
        pace = clock.run(Load(server.port, request(_PATH, _body(sizes[1]))).full(8, self.sizes.seconds / 3)) / 2
        used, count = [0.0, 0.0], [0, 0]
        for _ in range(3):
            for place, size in enumerate(sizes):
                load = Load(server.port, request(_PATH, _body(size)))
                before = server.cpu_seconds()
                clock.run(load.paced(pace, self.sizes.seconds / 3, connections=8))
                used[place] += server.cpu_seconds() - before
                count[place] += load.count
        # The time of processes is counted in hundredths of a second.
        return [max(0.01, seconds) / max(1, number) for seconds, number in zip(used, count, strict=True)]

    def _memory(self, model: gateways.Running) -> None:
        server = gateways.ours(self.folder, model.port)
        try:
            held = []
            for share in (0.1, 0.9):
                load = Load(server.port, request(_PATH, _body(1000)))
                clock.run(load.full(self.sizes.connections, share * self.sizes.requests / self._last_rate))
                held.append(server.resident_bytes())
        finally:
            server.stop()
        progress.say(
            f"memory    {held[0] / 1e6:.1f} MB after a tenth of {self.sizes.requests:,} requests, {held[1] / 1e6:.1f} MB after all"
        )
        self.found["memory"].twin.append(held[1] / held[0])

    def _streams(self) -> None:
        """Tokens say when they left the model: how late each is here, with the gateway and without it."""
        for _ in range(self.sizes.repeats):
            self.found["stream_p99"].twin.append(self._listened(gateways.ours, self.sizes.streams))
        if not self.ours_only:
            self._listened(gateways.nginx, self.sizes.streams)
        goal, count = self.found["stream_p99"].real[0], self.sizes.streams
        while self.sizes.fewer and min(self.found["stream_p99"].twin) > goal and count > self.sizes.streams // 4:
            count -= self.sizes.streams // 4
            if self._listened(gateways.ours, count) <= goal:
                progress.say(
                    f"streams   up to {count} at once, {count * 50:,} tokens/s, a token is at most {goal:g} ms (p99) later"
                )
                break

    def _listened(self, make: gateways.Maker, count: int) -> float:
        """What a proxy adds to a token, p99, in ms."""
        crowd = Crowd(gateways.OTHERS, gateways.MODEL, token_time=0.02)
        try:
            server = make(self.folder, *crowd.ports)
            if server is None:
                return 0.0
            try:
                late = self._late(crowd, server, count)
            finally:
                server.stop()
        finally:
            crowd.stop()
        self._say("streams", late)
        return max(0.01, late[server.name][1] - late["direct"][1])

    def _late(self, crowd: Crowd, server: gateways.Running, count: int) -> dict[str, list[float]]:
        sent = request(_PATH, orjson.dumps({**orjson.loads(_body(100, stream=True)), "max_tokens": 3000}))
        late = {}
        for name, ports in (("direct", crowd.ports), (server.name, [server.port])):
            before, began = server.cpu_seconds(), time.perf_counter()
            heard = crowd.listen(ports, sent, count, self.sizes.stream_seconds)
            used = (server.cpu_seconds() - before) / (time.perf_counter() - began)
            late[name] = [at(heard.late, share) * 1000 for share in (0.5, 0.99)]
            rate = len(heard.late) / self.sizes.stream_seconds
            progress.say(f"streams   {name} {rate:,.0f} tokens/s, {heard.joined} joined, {used:.0%} of the proxy's core")
        if server.name == "ours":
            self.found["stream_apart"].twin.append(1 - heard.joined / max(1, len(heard.late)))
        return late


def main() -> None:
    """Measure, and print."""
    words = "Our gateway beside nginx and LiteLLM's proxy, in front of the same echo model, each on the same core."
    given = program.arguments(words, flags={"--ours-only": "leave the others out"})
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        found = Bench(program.chosen(given, Sizes(), QUICK, TINY), Path(folder), ours_only=given.ours_only).run()
    program.tell(found, given, ("peer or bound", "ours"))


if __name__ == "__main__":
    main()
