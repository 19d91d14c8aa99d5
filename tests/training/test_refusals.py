"""TrainingJobs that are refused: with the line, the field, and the closest that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal import submissions

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: sliceworks.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: {name}}}\nspec:\n  queue: q\n  image: i\n"


def refused(tmp_path: Path, text: str, name: str = "train") -> str:
    file = tmp_path / "job.yaml"
    file.write_text(HEAD.format(name=name) + text)
    with pytest.raises(InvalidDocument) as caught:
        submissions.read(file)
    return f"{caught.value.message}; {caught.value.hint}".replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("  slices: {type: v4-33}\n", ("job.yaml:7", "v4-33", "v4-32")),
        ("  slices:\n    type: v4-32\n    topology: 2x2x2\n", ("job.yaml:9", "v4-32 has 16 chips", "2x2x4")),
        ("  slices: {accelerator: tpu-v4-podslices, topology: 2x2x2}\n", ("job.yaml:7", "tpu-v4-podslice")),
        ("  slices:\n    type: v4-32\n    chipsPerHost: 8\n", ("job.yaml:9", "8 chips per host do not fit", "ask for 4")),
        ("  slices:\n    accelerator: tpu-v4-podslice\n    topology: 3x3x3\n", ("job.yaml:9", "3x3x3 is no topology")),
        ("  slices: {type: v4-32, count: 0}\n", ("job.yaml:7", "spec.slices.count")),
        ("  slices: {type: v4-32}\n  prioritty: high\n", ("job.yaml:8", "spec.prioritty", "did you mean priority?")),
        ("  slicess: {type: v4-32}\n", ("job.yaml:7", "unknown field spec.slicess", "did you mean slices?")),
        ("  slices: {type: v4-32, capacity: reservation}\n", ("needs the reservation's name",)),
        ("  slices: {type: v4-32, capacity: spot, reservation: r}\n", ("reservation r needs capacity: reservation, found spot",)),
        ("  slices: {type: v4-32, accelerator: tpu-v4-podslice}\n", ("give a type, or an accelerator",)),
        ("  slices: {type: v4-32}\n  env: {1-2: x}\n", ("job.yaml:8", "spec.env")),
        ("  slices: {type: v4-32}\n  script: missing.py\n", ("job.yaml:8", "missing.py", "No such file")),
        ("  slices: {type: v4-32}\n  script: run.pl\n", ("a script is a .py or a .sh file",)),
        ("  slices: {type: v4-32}\n  volumes: [{name: a, mountPath: data, pvc: b}]\n", ("mountPath", "must begin with /")),
        ("  slices: {type: v4-32}\n  volumes: [{name: a, mountPath: /d}]\n", ("give one of gcsFuse, pvc, filestore and nfs",)),
        ("  slices: {type: v4-32}\n  secrets: [{secret: a, env: TOKEN}]\n", ("env needs a key",)),
        ("  slices: {type: v4-32}\n  restarts: {rules: [{exitCodes: [0], action: fail}]}\n", ("exitCodes",)),
        (
            "  slices: {type: v4-32}\n  restarts: {rules: [{exitCodes: [3], action: fail}, {exitCodes: [3], action: restart}]}\n",
            ("exit code 3 has two rules",),
        ),
        ("  slices: {type: v4-32}\n  helpers: [{name: slice, image: x}]\n", ("named twice: slice",)),
        ("  slices: {type: v4-32}\n  cpu: many\n", ("job.yaml:8", "spec.cpu")),
        ("  slices: {type: v4-32}\n  helpers: [{name: a, image: ''}]\n", ("job.yaml:8", "image", "must name an image")),
        ("  slices: {type: v4-32}\n  tensorboard: {logs: /x, image: i, experiment: e}\n", ("job.yaml:8", "give the instance too")),
    ],
)
def test_one_line_says_what_and_where(tmp_path: Path, text: str, told: tuple[str, ...]) -> None:
    line = refused(tmp_path, text)
    assert all(words in line for words in told), line


@pytest.mark.parametrize("metadata", ["labels: {a b: c}", "labels: {a: c d}", "annotations: {/a: b}"])
def test_labels_that_no_cluster_takes_are_refused(tmp_path: Path, metadata: str) -> None:
    line = refused(tmp_path, "  slices: {type: v4-32}\n", f"train, {metadata}")
    assert line.startswith(f"job.yaml:3: metadata.{metadata.partition(':')[0]}."), line
    assert "alphanumeric" in line or "non-empty" in line


def test_names_too_long_for_their_pods_are_refused_with_the_longest_that_fits(tmp_path: Path) -> None:
    line = refused(tmp_path, "  slices: {type: l4-1}\n", "n" * 48)
    assert "its pods would be called" in line
    assert "take a name of 47 characters at most" in line
    line = refused(tmp_path, "  slices: {type: v4-32}\n", "n" * 27)
    assert "take a name of 26 characters at most" in line


def test_names_that_fit_are_taken(tmp_path: Path) -> None:
    for name, kind in (("n" * 47, "l4-1"), ("n" * 26, "v4-32")):
        file = tmp_path / "job.yaml"
        file.write_text(HEAD.format(name=name) + f"  slices: {{type: {kind}}}\n")
        assert submissions.read(file).job.metadata.name == name


def test_another_kind_is_not_a_training_job(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: sliceworks.dev/v1alpha1\nkind: TrainingJobs\nmetadata: {name: a}\n")
    with pytest.raises(InvalidDocument, match="did you mean TrainingJob"):
        submissions.read(file)
