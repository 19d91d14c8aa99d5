"""How much a sender's memory grows with each request that it sends, in bytes.

python -m bench.measure.growing URL RATE SECONDS
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from time import time_ns

import gevent
from tests.real.processes import resident_bytes

from sliceworks.loadtest import plans
from sliceworks.loadtest.generator.pacing import Watch
from sliceworks.loadtest.generator.worker import Worker
from sliceworks.loadtest.rows import Writer
from sliceworks.specs.load_test import LoadTestSpec


def main(url: str, rate: float, seconds: float) -> None:
    """Send, and look at the memory after a third and in the end; the schedule is there from the beginning, and counts too."""
    given = {"target": {"url": url}, "api": "http", "http": {"path": "/x", "body": "x"}}
    spec = LoadTestSpec.model_validate({**given, "stages": [{"constant": rate, "for": seconds}]})
    sizes: list[int] = []
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        plan = plans.make(spec, Path(folder))
        with Writer(Path(folder), "worker-0", 0) as writer:
            worker = Worker(plan, writer, Watch(time_ns()))
            gevent.spawn_later(seconds / 3, lambda: sizes.append(resident_bytes(os.getpid())))
            worker.run()
            sizes.append(resident_bytes(os.getpid()))
    schedule = (plan.schedule.moments.nbytes + plan.schedule.of_phase.nbytes) / len(plan.schedule.moments)
    print(schedule + max(sizes[1] - sizes[0], 0) / (rate * seconds * 2 / 3))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
