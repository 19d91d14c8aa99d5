"""`python -m sliceworks.loadtest.generator FOLDER --role local|master|worker`: one process of a test.

The folder holds `test.json`: the document, whom to ask, and how many share the work. The key comes in a variable.
Twice a second a sender writes one line of JSON about itself to stdout. When stdin says stop, or ends, it sends nothing more.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent
import orjson
from gevent.fileobject import FileObject
from locust.runners import WorkerRunner

from sliceworks.base import sockets
from sliceworks.loadtest import plans
from sliceworks.loadtest.generator import clocks
from sliceworks.loadtest.generator.keys import KEY, PASSWORD
from sliceworks.loadtest.generator.locusts import Job, environment
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GRACE = 10.0
_EVERY = 0.5
_BEGIN, _SET = "begin", "set"
_LEAD = 500_000_000
"""From the word to begin until the beginning, in nanoseconds: time for all workers to hear of it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one process's part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--role", choices=["local", "master", "worker"], default="local")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5557)
    asked = parser.parse_args(arguments)
    del sys.argv[1:]  # Locust's pages would take our arguments for theirs
    sockets.allow_many()
    told = orjson.loads((asked.folder / "test.json").read_bytes())
    spec = LoadTestSpec.model_validate(told["spec"])
    text = Path(told["prompts"]).read_bytes() if told.get("prompts") else None
    plan = plans.make(spec, Path(told["files"]), url=told["url"], key=os.environ.pop(KEY, ""), text=text)
    job = Job(plan, asked.folder, workers=told["workers"], csv=told["csv"], web=told["web"])
    return {"local": _local, "master": _master, "worker": _worker}[asked.role](job, asked)


def _local(job: Job, _asked: argparse.Namespace) -> int:
    """All of the work in this process."""
    found = environment(job)
    runner = found.create_local_runner()
    end = _show(job, found)
    job.begins = time.perf_counter_ns() + job.clock.shift + _LEAD
    runner.start(1, spawn_rate=1)
    code = _follow(job, runner)
    end()
    return code


def _worker(job: Job, asked: argparse.Namespace) -> int:
    """A share of the work, when the master says so."""
    found = environment(job)
    giving_up = gevent.spawn(_give_up_when_told)  # Locust tries for minutes to find a master
    runner = found.create_worker_runner(asked.host, asked.port)

    def begin(environment: Any, msg: Any) -> None:
        job.begins = msg.data

    runner.register_message(_BEGIN, begin)
    asker = clocks.Asker(runner)
    job.clock = asker.ask()
    giving_up.kill()
    runner.send_message(_SET)
    return _follow(job, runner, asker)


def _master(job: Job, asked: argparse.Namespace) -> int:
    """Bring the workers together and tell them when to begin."""
    found = environment(job)
    port = asked.port or _free_port(asked.host)
    runner = found.create_master_runner(asked.host, port)
    _say({"port": port})
    shift, are_set = job.clock.shift, set[str]()
    clocks.answer(runner, lambda: time.perf_counter_ns() + shift)
    runner.register_message(_SET, lambda msg, **_: are_set.add(msg.node_id))
    end = _show(job, found)
    stopping = gevent.spawn(_until_told)
    while len(are_set) < job.workers and not stopping.ready():
        gevent.sleep(0.05)
    runner.send_message(_BEGIN, time.perf_counter_ns() + shift + _LEAD)
    runner.start(job.workers, spawn_rate=job.workers)
    while not stopping.ready():
        gevent.sleep(_EVERY)
    end()
    runner.quit()
    return 0


def _show(job: Job, found: Any) -> Callable[[], None]:
    """Locust's pages and files, where they were asked for; call what is returned at the end."""
    if not job.csv and not job.web:
        return lambda: None
    from sliceworks.loadtest.generator import pages

    if job.web:
        pages.serve(found, job.web, os.environ.pop(PASSWORD))
    end: Callable[[], None] = pages.write_csv(found, job.folder) if job.csv else lambda: None
    return end


def _follow(job: Job, runner: Any, asker: clocks.Asker | None = None) -> int:
    """Tell how it goes until it is done, or until it is told to stop."""
    stopping = gevent.spawn(_until_told)
    said_when = False
    while not job.done.wait(_EVERY):
        if job.worker is not None:
            if not said_when:
                said_when = True
                _say({"begins": job.begins})
            _say({**job.worker.tally.told(), "problem": job.flush()})
        if stopping.ready():
            if job.worker is not None:
                job.worker.stop(GRACE)
            break
    if job.worker is not None:
        job.done.wait(GRACE)
        stopped = job.worker.stopped
        _say({**job.worker.tally.told(), "done": job.finished and not stopped, "stopped": stopped, "clock": _clock(job, asker)})
    if isinstance(runner, WorkerRunner):
        runner._send_stats()  # Locust's own counts go to the master every few seconds: the last ones now
        gevent.sleep(0.2)
    runner.quit()
    return 0


def _clock(job: Job, asker: clocks.Asker | None) -> dict[str, int]:
    """In nanoseconds: how far this machine's clock is from the master's, how well that is known, and how much it changed."""
    if asker is None:
        return {}
    apart = clocks.local().shift - job.clock.shift
    try:
        again = asker.ask()
    except TimeoutError:
        return {"apart": apart, "uncertain": job.clock.uncertain}
    # Two readings differ by as much as they are uncertain; what is more is drift.
    change = abs(again.shift - job.clock.shift) - job.clock.uncertain - again.uncertain
    return {"apart": apart, "uncertain": job.clock.uncertain, "drift": max(change, 0)}


def _free_port(host: str) -> int:
    with socket.socket() as found:
        found.bind((host, 0))
        return int(found.getsockname()[1])


def _until_told() -> None:
    """Return when stdin says stop, or when nobody is there any more to say it."""
    FileObject(sys.stdin.fileno(), "rb", close=False).readline()


def _give_up_when_told() -> None:
    """Before anything has begun there is nothing to keep."""
    _until_told()
    os._exit(0)


def _say(what: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
