"""The GitHub workflows: least privilege, pinned actions, and make targets that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.clusters import real_enabled

ROOT = Path(__file__).parents[2]
WRITES = {"publish": {"contents"}, "docs": {"contents"}, "images": {"packages", "id-token"}, "pypi": {"id-token"}}
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def jobs(file: Path) -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load(file.read_text())["jobs"]
    return result


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflow_may_only_read_by_default(file: Path) -> None:
    assert yaml.safe_load(file.read_text())["permissions"] == {"contents": "read"}
    for name, job in jobs(file).items():
        writes = {right for right, level in job.get("permissions", {}).items() if level == "write"}
        assert writes <= WRITES.get(name, set())


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit(file: Path) -> None:
    uses = re.findall(r"uses: (.*)", file.read_text())
    assert uses
    assert [item for item in uses if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+", item)] == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_steps_are_make_targets(file: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    runs = [step["run"] for job in jobs(file).values() for step in job["steps"] if "run" in step and "name" not in step]
    assert runs
    for run in runs:
        assert run.startswith("make "), run
        assert {word for word in run.split()[1:] if "=" not in word} <= targets


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.name)
def test_form_of_issues_is_valid_for_every_yaml_parser(file: Path) -> None:
    form = yaml.safe_load(file.read_text())
    assert form.keys() == {"name", "description", "labels", "body"}
    assert all(field["type"] in ("input", "textarea") and field["attributes"]["label"] for field in form["body"])


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs actionlint built from its Go module: SLICEWORKS_REAL=1")
def test_actionlint_has_no_complaints() -> None:
    from tests.real.build import build
    from tests.real.programs import PROGRAMS

    command = [str(build(PROGRAMS["actionlint"])), "-no-color", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
