"""Documents that cannot be rehearsed: all errors are reported at once, with locations, before anything starts."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sliceworks.cli import main
from sliceworks.platform.validation import validate_folder

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
    """A folder of valid documents."""
    (tmp_path / "jobs").mkdir()
    for name, text in (("10-environment.yaml", ENVIRONMENT), ("jobs/train.yaml", JOB), ("20-day.yaml", SCENARIO)):
        (tmp_path / name).write_text(text)
    return tmp_path


def errors_of(folder: Path) -> list[str]:
    return [item.message.removeprefix(f"{folder}/") for item in validate_folder(folder)]


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_valid_folder_has_no_errors(folder: Path) -> None:
    assert errors_of(folder) == []


def test_all_errors_are_reported_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        "30-more.yaml:11: ConfigMap/a is defined twice",
        "30-more.yaml:14: unknown kind TrainingJb; did you mean TrainingJob?",
        "30-more.yaml:17: has no kind",
        "40-job.yaml:4: spec.image is required",
        "40-job.yaml:7: unknown field spec.imge; did you mean image?",
        "40-job.yaml:8: unknown field spec.comand; did you mean command?",
    ]
    assert err.splitlines()[-1] == "6 problems; nothing was started"


def test_unknown_references_are_errors(folder: Path) -> None:
    change(folder / "jobs/train.yaml", "queue: tpus", "queue: gpus")
    change(folder / "20-day.yaml", "name: train-1", "name: trian-1")
    change(folder / "20-day.yaml", "job: train-2", "job: train-3")
    (folder / "30-more.yaml").write_text("apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: b}\n")
    assert [(item.message.removeprefix(f"{folder}/"), item.hint) for item in validate_folder(folder)] == [
        ("20-day.yaml:7: job train-3 not found in namespace training", "did you mean training/train-2?"),
        ("20-day.yaml:9: job trian-1 not found in namespace training", "did you mean training/train-1?"),
        ("30-more.yaml:2: unknown kind Deploymnt in apps/v1", "did you mean Deployment?"),
        ("jobs/train.yaml:5: queue gpus not found in namespace training", "did you mean training/tpus?"),
    ]


def test_objects_of_invalid_documents_are_not_reported_missing(folder: Path) -> None:
    change(folder / "10-environment.yaml", "region:", "regin:")
    assert errors_of(folder) == [
        "10-environment.yaml:4: spec.region is required",
        "10-environment.yaml:6: unknown field spec.regin; did you mean region?",
    ]
    (folder / "10-environment.yaml").write_text("kind: [\n")
    (only,) = errors_of(folder)
    assert only.startswith("10-environment.yaml:2: while parsing a flow node")


def test_files_of_a_scenario_are_checked_first(folder: Path) -> None:
    change(folder / "20-day.yaml", "jobs/train.yaml", "jobs/trian.yaml")
    assert errors_of(folder)[0] == "20-day.yaml:6: jobs/trian.yaml not found"
    change(folder / "20-day.yaml", "jobs/trian.yaml", "jobs/train.yaml")
    change(folder / "jobs/train.yaml", "v5litepod-16", "v5litepod-17")
    assert [item.partition(": ")[0] for item in errors_of(folder)] == ["jobs/train.yaml:6"]


def test_files_of_invalid_scenario_are_checked(folder: Path) -> None:
    change(folder / "20-day.yaml", "count: 2", "count: many")
    more = "  - {at: 3m, apply: {file: jobs/later.yaml}}\n  - {at: 3m, trace: {file: 1}}\n  - 7\n"
    change(folder / "20-day.yaml", "  expect:", f"{more}  expect:")
    change(folder / "jobs/train.yaml", "queue: tpus", "queues: tpus")
    result = errors_of(folder)
    day, job = "20-day.yaml", "jobs/train.yaml"
    assert [item.split(": ")[0] for item in result] == [f"{day}:6", f"{day}:8", f"{day}:9", f"{day}:10", f"{job}:4", f"{job}:5"]
    assert "20-day.yaml:8: jobs/later.yaml not found" in result
    assert any("unknown field spec.queues" in item for item in result)


@pytest.mark.parametrize("spec", ["[]", "{events: {submit: {file: jobs/train.yaml}}}", "{events: [{submit: [file]}]}", "7"])
def test_malformed_scenario_is_an_error(folder: Path, spec: str) -> None:
    (folder / "20-day.yaml").write_text(SCENARIO.partition("spec:")[0] + f"spec: {spec}\n")
    assert {item.split(":")[0] for item in errors_of(folder)} == {"20-day.yaml"}


def test_kinds_of_crd_documents_are_known(folder: Path) -> None:
    (folder / "30-kind.yaml").write_text(
        "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: web}\n"
        "spec: {schema: {apiVersion: v1alpha1, kind: Web}, resources: []}\n---\n"
        "apiVersion: kro.run/v1alpha1\nkind: Web\nmetadata: {name: mine}\n"
    )
    assert errors_of(folder) == []


def test_second_scenario_is_an_error(folder: Path) -> None:
    (folder / "30-day.yaml").write_text(SCENARIO.replace("name: day", "name: other"))
    assert errors_of(folder) == ["30-day.yaml:1: only one Scenario is allowed"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.yaml", b"\xff\xfe\x00", "not valid UTF-8"),
        ("a.yaml", b"just words", "expected a mapping of fields"),
        ("a.json", b'{"kind": ', "while parsing"),
    ],
)
def test_files_without_documents_are_errors(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    (only,) = validate_folder(tmp_path)
    assert only.place.startswith(f"{tmp_path}/{name}")
    assert message in only.message


def test_dangling_link_is_an_error(folder: Path) -> None:
    (folder / "50-gone.yaml").symlink_to("missing.yaml")
    assert errors_of(folder) == ["50-gone.yaml: no such file or directory"]


def test_unreadable_file_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Path.open

    def open_file(file: Path, *args: Any, **options: Any) -> Any:
        # The tests may run as root, who may read everything.
        if file.name == "10-environment.yaml":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return original(file, *args, **options)

    monkeypatch.setattr(Path, "open", open_file)
    assert errors_of(folder) == ["10-environment.yaml: permission denied"]


def test_empty_folder_and_missing_path_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rehearse", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: {tmp_path}: has no documents",
        "hint: pass a folder of .yaml files, such as examples/platform",
    ]
    assert main.run(["rehearse", str(tmp_path / "missing")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_single_file_is_accepted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rehearse", str(folder / "10-environment.yaml"), "--quiet", "-o", "name", "--for", "1s"]) == 0
    assert "ClusterQueue/" in capsys.readouterr().out


def test_errors_in_a_narrow_terminal(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    change(folder / "20-day.yaml", "spec:\n", "spec:\n  duration: 20s\n")
    assert main.run(["rehearse", str(folder), "--report", str(folder / "day.html")]) == 1
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert max(map(len, out.splitlines())) <= 40
    assert "job training/train-1" in " ".join(out.split())
    assert (folder / "day.html").is_file()


def test_more_submissions_than_a_twin_can_hold_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "20-day.yaml").write_text(SCENARIO.replace("count: 2", "count: 100000000"))
    assert main.run(["rehearse", str(folder)]) == 1
    output = capsys.readouterr().err
    assert "20-day.yaml:6: spec.events[0].submit.count: " in output
    assert "100000" in output
