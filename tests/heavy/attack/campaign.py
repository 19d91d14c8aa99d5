"""Run all attacks at once for some time, kill the twin meanwhile, and print the figures."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from tests.heavy.attack import on_servers, on_twin
from tests.heavy.attack.health import Health, Latency
from tests.heavy.attack.requests import Figures, Http
from tests.heavy.attack.targets import CONTROL, TWIN, Targets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_WORKERS, _WRITERS, _KILLS = 3, 4, 2
_PROBES = {TWIN: "https://127.0.0.1:{}/livez", CONTROL: "https://127.0.0.1:{}/livez", "gateway": "http://127.0.0.1:{}/healthz"}
_PROBES |= {"admin": "http://127.0.0.1:{}/healthz", "controllers": "http://127.0.0.1:{}/healthz"}


class Writer:
    """Writes increasing numbers to ConfigMaps and remembers what was acknowledged."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.acknowledged: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.writes = 0

    async def run(self, name: str) -> None:
        for number in range(10**9):
            self.sent[name] = number
            if name in self.acknowledged:
                status, _ = await self._http.ask("PATCH", f"{on_twin.MAPS}/{name}", {"data": {"n": str(number)}})
            else:
                status, _ = await self._http.ask("POST", on_twin.MAPS, {"metadata": {"name": name}, "data": {"n": str(number)}})
            if 200 <= status < 300:
                self.acknowledged[name] = number
                self.writes += 1
            await asyncio.sleep(0.02)

    async def count_lost(self) -> int:
        """The objects that are older than their acknowledged state, or newer than everything that was sent."""
        lost = 0
        for name, number in dict(self.acknowledged).items():
            latest = self.sent[name]
            status, body = await self._http.ask("GET", f"{on_twin.MAPS}/{name}")
            lost += status != 200 or not number <= int(orjson.loads(body)["data"]["n"]) <= max(latest, self.sent[name])
        return lost


async def stream_through(http: Http, ending: float) -> tuple[int, int]:
    """Read one stream of the gateway after the other; returns how many ended complete, and how many did not."""
    complete = broken = 0
    while time.monotonic() < ending:
        _, body = await http.ask("POST", on_servers.CHAT, on_servers.chat(200, stream=True, max_tokens=200))
        if body.rstrip().endswith(b"data: [DONE]") and b'"error"' not in body:
            complete += 1
        else:
            broken += 1
            http.figures.problems.append(f"gateway: a stream ended early: {body[-300:]!r}")
    return complete, broken


@dataclass
class Report:
    """The figures of a campaign."""

    figures: Figures
    latencies: dict[str, Latency] = field(default_factory=dict)
    writes: int = 0
    lost: int = 0
    kills: int = 0
    complete: int = 0
    broken: int = 0
    died: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)

    def show(self) -> str:
        total = self.figures.total
        lines = [
            f"requests {total():,}: {total('2'):,} 2xx, {total('4'):,} 4xx, {total('5'):,} 5xx",
            f"writes acknowledged {self.writes:,}, lost {self.lost}, kills of the twin {self.kills}",
            f"streams complete {self.complete}, broken {self.broken}",
            f"processes that ended {self.died or 'none'}, left behind {self.children or 'none'}",
            *(f"health of {name}: {one.show()}" for name, one in self.latencies.items()),
            *(f"longest gap: {gap}" for gap in self.gaps),
            *(f"memory of {name}: {size / 2**20:.0f} MiB" for name, size in self.memory.items()),
            *(f"{server} {status}: {count:,}" for (server, status), count in sorted(self.figures.statuses.items())),
            *(f"problem: {problem}" for problem in self.figures.problems[:40]),
        ]
        return "\n".join(lines)


class Campaign:
    """All attacks on one set of targets."""

    def __init__(self, targets: Targets, seconds: float, only: str = "") -> None:
        self._targets, self._ending, self._seconds = targets, time.monotonic() + seconds, seconds
        self._random = random.Random(7)
        self._only = only
        figures = Figures()
        self._report = Report(figures)

        def http(server: str, token: str = "", scheme: str = "http") -> Http:
            return Http(figures, server, f"{scheme}://127.0.0.1:{targets.ports[server]}", token)

        self._twin = http(TWIN, targets.token(), "https")
        self._gateway, self._admin = http("gateway", "ka"), http("admin", "admin")
        self._anonymous = [http(server) for server in ("gateway", "admin", "console", "controllers")]
        self._writer = Writer(http(TWIN, targets.token(), "https"))
        self._health = Health(
            {
                name: (url.format(targets.ports[name]), targets.processes["gateway" if name == "admin" else name].pid)
                for name, url in _PROBES.items()
            }
        )
        self._log: list[tuple[float, float, str]] = []

    async def run(self) -> Report:
        report = self._report
        writers = [asyncio.create_task(self._writer.run(f"written-{number}")) for number in range(_WRITERS)]
        streams = stream_through(self._gateway, self._ending)
        attacks = [self._repeat(self._attack_twin) for _ in range(_WORKERS)]
        attacks += [self._repeat(self._attack_servers), self._watch_memory(), self._kill_twin()]
        (report.complete, report.broken), _ = await asyncio.gather(streams, asyncio.gather(*attacks))
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        report.latencies = self._health.end()
        report.lost += await self._writer.count_lost()
        report.writes = self._writer.writes
        report.died += [name for name, process in self._targets.processes.items() if not process.alive()]
        for gap, started in report.latencies[TWIN].longest_cpu:
            attacks_then = {name for start, end, name in self._log if start <= started + gap / 1000 and started <= end}
            report.gaps.append(f"{gap:.0f} ms of CPU during {', '.join(sorted(attacks_then))}")
        for http in (self._twin, self._gateway, self._admin, *self._anonymous, self._writer._http):
            await http.close()
        return report

    async def _repeat(self, attack: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < self._ending:
            await attack()

    async def _attack_twin(self) -> None:
        attack = self._random.choice([one for one in on_twin.ATTACKS if self._only in one.__name__])
        started = time.monotonic()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(attack(self._twin), max(1.0, self._ending - started) + 30)
        self._log.append((started, time.monotonic(), attack.__name__))

    async def _attack_servers(self) -> None:
        targets = self._targets
        await on_servers.evasions(self._gateway, targets)
        await on_servers.completions(self._gateway, targets)
        await on_servers.broken_reloads(self._admin, targets)
        await on_servers.bodies(self._gateway, targets)
        for http in self._anonymous:
            await on_servers.connections(http, targets)
            await on_servers.anonymous_requests(http, targets)
            await on_twin.garbage(http)

    async def _kill_twin(self) -> None:
        """Kill the twin and start it again; count acknowledged writes that it lost."""
        for _ in range(_KILLS):
            await asyncio.sleep(self._seconds / (_KILLS + 1))
            self._health.send(f"pause {TWIN}")
            await asyncio.to_thread(self._targets.restart_twin)
            self._report.lost += await self._writer.count_lost()
            self._report.kills += 1
            self._health.send(f"resume {TWIN} {self._targets.processes[TWIN].pid}")

    async def _watch_memory(self) -> None:
        memory = self._report.memory
        while time.monotonic() < self._ending:
            await asyncio.sleep(0.5)
            for name, process in self._targets.processes.items():
                with contextlib.suppress(Exception):
                    memory[name] = max(memory.get(name, 0), process.resident_bytes())


async def measure_each(targets: Targets, seconds: float, only: str) -> dict[str, tuple[Latency, Latency]]:
    """Run each attack on the twin alone, again and again; returns the health of the twin and of the idle one."""
    result: dict[str, tuple[Latency, Latency]] = {}
    http = Http(Figures(), TWIN, f"https://127.0.0.1:{targets.ports[TWIN]}", targets.token())
    for one in on_twin.ATTACKS:
        if only in one.__name__:
            names = (TWIN, CONTROL)
            health = Health({name: (_PROBES[name].format(targets.ports[name]), targets.processes[name].pid) for name in names})
            ending = time.monotonic() + seconds
            while time.monotonic() < ending:
                await one(http)
            latencies = health.end()
            result[one.__name__] = (latencies[TWIN], latencies[CONTROL])
            print(f"{one.__name__}: {latencies[TWIN].show()}; idle twin {latencies[CONTROL].show()}", flush=True)
    await http.close()
    return result


async def _run(targets: Targets, seconds: float, only: str) -> Report:
    return await Campaign(targets, seconds, only).run()


def attack(folder: Path, seconds: float, only: str = "") -> Report:
    """Start all targets, attack them and stop them."""
    with Targets(folder) as targets:
        os.nice(10)
        report = asyncio.run(_run(targets, seconds, only))
    report.children = targets.children()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--only", default="", help="part of the names of the attacks on the twin")
    parser.add_argument("--each", action="store_true", help="run each attack on the twin alone for this time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.each:
            with Targets(Path(folder)) as targets:
                os.nice(10)
                asyncio.run(measure_each(targets, options.seconds, options.only))
        else:
            print(attack(Path(folder), options.seconds, options.only).show())
        for log in Path(folder).glob("*.log"):
            text = log.read_text(errors="replace")
            if "Traceback" in text or "blocked" in text:
                print(f"--- {log.name}\n{text[-5000:]}")


if __name__ == "__main__":
    main()
