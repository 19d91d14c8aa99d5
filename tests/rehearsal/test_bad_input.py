"""Documents that cannot be rehearsed: everything that is wrong is told at once, with places, before anything starts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sliceworks.cli import main
from sliceworks.rehearsal.checking.everything import problems

ENVIRONMENT = """\
apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-west4
  zones: [us-west4-a]
  automation: {bucket: my-project-automation}
  pools:
    cpu: {cpu-pool: {machineType: n1-standard-4, nodes: 1}}
    tpu: {v5e: {type: v5litepod-16}}
  identities: {workloads: {trainer: {namespace: training}}}
  teams: {training: {queue: tpus, identity: trainer, serviceAccount: trainer}}
"""
JOB = """\
apiVersion: sliceworks.dev/v1alpha1
kind: TrainingJob
metadata: {name: "train-{n}", namespace: training}
spec:
  queue: tpus
  slices: {type: v5litepod-16}
  image: example.com/train:1
  command: [train]
"""
SCENARIO = """\
apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: day}
spec:
  events:
  - {at: 1m, submit: {file: jobs/train.yaml, count: 2}}
  - {at: 2m, setPriority: {job: train-2, namespace: training, priority: high}}
  expect:
  - job: {name: train-1, namespace: training, outcome: succeeded}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with which nothing is wrong."""
    (tmp_path / "jobs").mkdir()
    for name, text in (("10-environment.yaml", ENVIRONMENT), ("jobs/train.yaml", JOB), ("20-day.yaml", SCENARIO)):
        (tmp_path / name).write_text(text)
    return tmp_path


def told(folder: Path) -> list[str]:
    return [each.message.removeprefix(f"{folder}/") for each in problems(folder)]


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_of_a_good_folder_nothing_is_told(folder: Path) -> None:
    assert told(folder) == []


def test_everything_is_told_at_once_and_nothing_starts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(folder / "jobs/train.yaml", "queue: tpus", "queue: gpus")
    change(folder / "20-day.yaml", "name: train-1", "name: trian-1")
    (folder / "30-more.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: training}\n---\n"
        "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: b}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: training}\n---\n"
        "apiVersion: sliceworks.dev/v1alpha1\nkind: TrainingJb\nmetadata: {name: c}\n---\n"
        "apiVersion: v1\nmetadata: {name: d}\n"
    )
    (folder / "40-job.yaml").write_text(JOB.replace("train-{n}", "one").replace("image:", "imge:").replace("command:", "comand:"))
    assert main.run(["rehearse", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.removeprefix(f"error: {folder}/") for line in err.splitlines() if line.startswith("error: ")] == [
        "30-more.yaml:11: ConfigMap/a is written twice",
        "30-more.yaml:14: unknown kind TrainingJb; did you mean TrainingJob?",
        "30-more.yaml:17: has no kind",
        "40-job.yaml:4: spec.image is required",
        "40-job.yaml:7: unknown field spec.imge; did you mean image?",
        "40-job.yaml:8: unknown field spec.comand; did you mean command?",
    ]
    assert err.splitlines()[-1] == "6 problems; nothing was started"


def test_names_that_lead_nowhere(folder: Path) -> None:
    change(folder / "jobs/train.yaml", "queue: tpus", "queue: gpus")
    change(folder / "20-day.yaml", "name: train-1", "name: trian-1")
    change(folder / "20-day.yaml", "job: train-2", "job: train-3")
    (folder / "30-more.yaml").write_text("apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: b}\n")
    assert [(each.message.removeprefix(f"{folder}/"), each.hint) for each in problems(folder)] == [
        ("20-day.yaml:7: nobody submits a job train-3 in training", "did you mean training/train-2?"),
        ("20-day.yaml:9: nobody submits a job trian-1 in training", "did you mean training/train-1?"),
        ("30-more.yaml:2: nobody knows kind Deploymnt of apps/v1", "did you mean Deployment?"),
        ("jobs/train.yaml:5: there is no queue gpus in training", "did you mean training/tpus?"),
    ]


def test_what_a_broken_document_would_have_brought_is_not_said_to_be_missing(folder: Path) -> None:
    change(folder / "10-environment.yaml", "region:", "regin:")
    assert told(folder) == [
        "10-environment.yaml:4: spec.region is required",
        "10-environment.yaml:6: unknown field spec.regin; did you mean region?",
    ]
    (folder / "10-environment.yaml").write_text("kind: [\n")
    (only,) = told(folder)
    assert only.startswith("10-environment.yaml:2: while parsing a flow node")


def test_files_of_a_scenario_are_read_before_it_begins(folder: Path) -> None:
    change(folder / "20-day.yaml", "jobs/train.yaml", "jobs/trian.yaml")
    assert told(folder)[0] == "20-day.yaml:6: there is no jobs/trian.yaml"
    change(folder / "20-day.yaml", "jobs/trian.yaml", "jobs/train.yaml")
    change(folder / "jobs/train.yaml", "v5litepod-16", "v5litepod-17")
    assert [each.partition(": ")[0] for each in told(folder)] == ["jobs/train.yaml:6"]


def test_files_of_a_scenario_that_is_wrong_itself_are_read_all_the_same(folder: Path) -> None:
    change(folder / "20-day.yaml", "count: 2", "count: many")
    more = "  - {at: 3m, apply: {file: jobs/later.yaml}}\n  - {at: 3m, trace: {file: 1}}\n  - 7\n"
    change(folder / "20-day.yaml", "  expect:", f"{more}  expect:")
    change(folder / "jobs/train.yaml", "queue: tpus", "queues: tpus")
    found = told(folder)
    day, job = "20-day.yaml", "jobs/train.yaml"
    assert [each.split(": ")[0] for each in found] == [f"{day}:6", f"{day}:8", f"{day}:9", f"{day}:10", f"{job}:4", f"{job}:5"]
    assert "20-day.yaml:8: there is no jobs/later.yaml" in found
    assert any("unknown field spec.queues" in each for each in found)


@pytest.mark.parametrize("spec", ["[]", "{events: {submit: {file: jobs/train.yaml}}}", "{events: [{submit: [file]}]}", "7"])
def test_a_scenario_that_is_nothing_like_one_is_told_of(folder: Path, spec: str) -> None:
    (folder / "20-day.yaml").write_text(SCENARIO.partition("spec:")[0] + f"spec: {spec}\n")
    assert {each.split(":")[0] for each in told(folder)} == {"20-day.yaml"}


def test_kinds_that_a_document_defines_are_known(folder: Path) -> None:
    (folder / "30-kind.yaml").write_text(
        "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: web}\n"
        "spec: {schema: {apiVersion: v1alpha1, kind: Web}, resources: []}\n---\n"
        "apiVersion: kro.run/v1alpha1\nkind: Web\nmetadata: {name: mine}\n"
    )
    assert told(folder) == []


def test_a_second_scenario_is_one_too_many(folder: Path) -> None:
    (folder / "30-day.yaml").write_text(SCENARIO.replace("name: day", "name: other"))
    assert told(folder) == ["30-day.yaml:1: is the second scenario"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.yaml", b"\xff\xfe\x00", "is not UTF-8 text"),
        ("a.yaml", b"just words", "expected a mapping of fields"),
        ("a.json", b'{"kind": ', "while parsing"),
    ],
)
def test_files_that_are_no_documents(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    (only,) = problems(tmp_path)
    assert only.place.startswith(f"{tmp_path}/{name}")
    assert message in only.message


def test_a_link_that_leads_nowhere_is_told(folder: Path) -> None:
    (folder / "50-gone.yaml").symlink_to("missing.yaml")
    assert told(folder) == ["50-gone.yaml: no such file or directory"]


def test_a_file_that_may_not_be_read_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Path.read_text

    def read(file: Path, **how: str) -> str:
        # The tests may run as root, who may read everything.
        if file.name == "10-environment.yaml":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return reading(file, **how)

    monkeypatch.setattr(Path, "read_text", read)
    assert told(folder) == ["10-environment.yaml: permission denied"]


def test_an_empty_folder_and_a_wrong_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rehearse", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: {tmp_path}: has no documents",
        "hint: give a folder of .yaml files, such as examples/platform",
    ]
    assert main.run(["rehearse", str(tmp_path / "missing")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_single_file_is_as_good_as_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rehearse", str(folder / "10-environment.yaml"), "--quiet", "-o", "name", "--for", "1s"]) == 0
    assert "ClusterQueue/" in capsys.readouterr().out


def test_a_narrow_terminal_without_colours(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    change(folder / "20-day.yaml", "spec:\n", "spec:\n  duration: 30m\n")
    assert main.run(["rehearse", str(folder), "--report", str(folder / "day.html")]) == 1
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert max(map(len, out.splitlines())) <= 40
    assert "job training/train-1" in " ".join(out.split())
    assert (folder / "day.html").is_file()
