"""Runs Kubernetes' conformance specs on a twin whose nodes run agnhost as a process, and stores the result of each.

    python -m tests.conformance.suite [--focus REGEX] [--processes N] [--reports FOLDER] [--update] [--real]

Fails if a spec that is stored as passed does not pass; `--update` stores that as well. Without a focus, specs that do not apply are
skipped. Reports and logs are in `build/conformance`. With `--real`, the specs run on the real control plane with the twin's nodes,
and the results are stored apart: a spec that fails there too fails because of the nodes. Needs root, for a network of its own.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import yaml
from tests.conformance import ginkgo, results
from tests.conformance.cluster import running_control_plane, running_twin
from tests.conformance.results import Outcome, Result
from tests.real.agnhost import write_image_map
from tests.real.build import CannotBuild, build, module_folder
from tests.real.programs import CONTROL_PLANE, PROGRAMS

ROOT = Path(__file__).parents[2]


def conformance_specs() -> list[str]:
    """The names of all conformance specs, from Kubernetes' own list."""
    folder = module_folder(PROGRAMS["e2e.test"], "k8s.io/kubernetes")
    entries = yaml.load((folder / "test/conformance/testdata/conformance.yaml").read_text(), yaml.CSafeLoader)
    return sorted(entry["codename"] for entry in entries)


def main() -> int:
    """Run the suite, store results, print what changed."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    arguments = _arguments()
    try:
        programs = ("e2e.test", "ginkgo", "kubectl", "agnhost")
        for name in (*programs, *(("etcd", *CONTROL_PLANE) if arguments.real else ())):
            build(PROGRAMS[name])
        specs = conformance_specs()
        new = _run(specs, arguments)
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    file = results.REAL if arguments.real else results.RESULTS
    stored = results.read(file)
    lost = results.regressions(stored, new)
    merged = {name: Result(Outcome.NOT_RUN) for name in specs} | stored | new
    if not arguments.update:
        merged |= {name: stored[name] for name in lost}
    results.write({name: merged[name] for name in specs}, file)
    subprocess.run([sys.executable, ROOT / "docs" / "generate.py"], check=True)
    passed = sum(result.outcome is Outcome.PASSED for result in new.values())
    print(f"{passed} of {len(new)} specs passed; reports are in {arguments.reports}")
    for name in lost:
        print(f"no longer passes: {name}: {new[name].message}", file=sys.stderr)
    return 1 if lost else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--focus", default="", help="run only specs whose names match")
    parser.add_argument("--processes", type=int, default=8, help="parallel test processes; most of the time they wait")
    parser.add_argument("--reports", type=Path, default=ROOT / "build" / "conformance", help="folder of reports and logs")
    parser.add_argument("--update", action="store_true", help="also store that a spec does not pass any more")
    parser.add_argument("--real", action="store_true", help="run on the real control plane with the twin's nodes")
    return parser.parse_args()


def _run(specs: list[str], arguments: argparse.Namespace) -> dict[str, Result]:
    """The results of the selected specs."""
    reports: Path = arguments.reports.resolve()
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    skipped = [] if arguments.focus else [reason.pattern for reason in results.reasons() if not reason.applies]
    commit = results.commit()
    images = write_image_map(reports)
    if arguments.real:
        cluster = running_control_plane(reports / "real", images)
    else:
        cluster = running_twin(reports / "twin", images, log=reports / "twin.log")
    with cluster as kubeconfig:
        selection = ginkgo.Selection(arguments.focus, skipped, arguments.processes)
        outcomes = ginkgo.run(selection, kubeconfig, reports)
    names = set(specs)
    return {name: Result(outcome, commit, message) for name, (outcome, message) in outcomes.items() if name in names}


if __name__ == "__main__":
    sys.exit(main())
