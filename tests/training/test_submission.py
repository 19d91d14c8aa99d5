"""Invalid TrainingJobs: the error has the line, the field, and the closest valid value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sliceworks.base.errors import InvalidDocument
from sliceworks.training import submission

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: sliceworks.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: {name}}}\nspec:\n  queue: q\n  image: i\n"


def refused(tmp_path: Path, text: str, name: str = "train") -> str:
    file = tmp_path / "job.yaml"
    file.write_text(HEAD.format(name=name) + text)
    with pytest.raises(InvalidDocument) as caught:
        submission.load(file)
    return f"{caught.value.message}; {caught.value.hint}".replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("  slices: {type: v4-33}\n", ("job.yaml:7", "v4-33", "v4-32")),
        ("  slices:\n    type: v4-32\n    topology: 2x2x2\n", ("job.yaml:9", "v4-32 has 16 chips", "2x2x4")),
        ("  slices: {accelerator: tpu-v4-podslices, topology: 2x2x2}\n", ("job.yaml:7", "tpu-v4-podslice")),
        ("  slices:\n    type: v4-32\n    chipsPerHost: 8\n", ("job.yaml:9", "has no hosts with 8 chips", "use 4")),
        ("  slices:\n    accelerator: tpu-v4-podslice\n    topology: 3x3x3\n", ("job.yaml:9", "3x3x3 is not a ")),
        ("  slices: {type: v4-32, count: 0}\n", ("job.yaml:7", "spec.slices.count")),
        ("  slices: {type: v4-32}\n  prioritty: high\n", ("job.yaml:8", "spec.prioritty", "did you mean priority?")),
        ("  slicess: {type: v4-32}\n", ("job.yaml:7", "unknown field spec.slicess", "did you mean slices?")),
        ("  slices: {type: v4-32, capacity: reservation}\n", ("requires reservation: NAME",)),
        ("  slices: {type: v4-32, capacity: spot, reservation: r}\n", ("requires capacity: reservation, got spot",)),
        ("  slices: {type: v4-32, accelerator: tpu-v4-podslice}\n", ("exactly one of type and accelerator",)),
        ("  slices: {type: v4-32}\n  env: {1-2: x}\n", ("job.yaml:8", "spec.env")),
        ("  slices: {type: v4-32}\n  script: missing.py\n", ("job.yaml:8", "missing.py", "No such file")),
        ("  slices: {type: v4-32}\n  script: run.pl\n", ("must be a .py or .sh file",)),
        ("  slices: {type: v4-32}\n  volumes: [{name: a, mountPath: data, pvc: b}]\n", ("mountPath", "must be an absolute path")),
        ("  slices: {type: v4-32}\n  volumes: [{name: a, mountPath: /d}]\n", ("exactly one of gcsFuse, pvc, filestore and nfs",)),
        ("  slices: {type: v4-32}\n  secrets: [{secret: a, env: TOKEN}]\n", ("key: required with env",)),
        ("  slices: {type: v4-32}\n  restarts: {rules: [{exitCodes: [0], action: fail}]}\n", ("exitCodes",)),
        (
            "  slices: {type: v4-32}\n  restarts: {rules: [{exitCodes: [3], action: fail}, {exitCodes: [3], action: restart}]}\n",
            ("duplicate exit code: 3",),
        ),
        ("  slices: {type: v4-32}\n  helpers: [{name: slice, image: x}]\n", ("duplicate job name: slice",)),
        ("  slices: {type: v4-32}\n  cpu: many\n", ("job.yaml:8", "spec.cpu")),
        ("  slices: {type: v4-32}\n  helpers: [{name: a, image: ''}]\n", ("job.yaml:8", "image", "must name an image")),
        *(
            (f"  slices: {{type: v4-32}}\n  helpers: [{{name: a, image: {image}}}]\n", ("job.yaml:8", "must name an image"))
            for image in ('"a\\0b"', '":::"', "a:::b", "a/B", "a//b", "a:b:c", "a@sha256:12", "a/", '"a b"', "a" * 600, "-a")
        ),
        ('  slices: {type: v4-32}\n  cpu: "-4"\n', ("job.yaml:8", "spec.cpu", "must be greater than 0, got -4")),
        ('  slices: {type: v4-32}\n  memory: "0"\n', ("job.yaml:8", "spec.memory", "must be greater than 0")),
        ('  slices: {type: v4-32}\n  helpers: [{name: a, image: x, cpu: "-1"}]\n', ("job.yaml:8", "cpu", "greater than 0")),
        ('  slices: {type: v4-32}\n  cpu: "242"\n', ("job.yaml:8", "has 239", "found 242")),
        ("  slices: {type: l4-1}\n  memory: 1Ti\n", ("job.yaml:8", "found 1Ti", "request less")),
        ("  slices: {type: v4-32}\n  env: {A: 5}\n", ("job.yaml:8", "spec.env.A: must be a string, got 5")),
        ("  slices: {type: v4-32, count: 100000000}\n", ("job.yaml:7", "at most 65,000 nodes")),
        ("  slices: {type: v4-32}\n  deadline: 0s\n", ("job.yaml:8", "spec.deadline: must be at least 1s")),
        ("  slices: {type: v4-32}\n  deadline: 500ms\n", ("job.yaml:8", "spec.deadline: must be at least 1s")),
        (f"  slices: {{type: v4-32}}\n  env: {{A: {'x' * 200_000}}}\n", ("job.yaml:8", "spec.env.A: is longer than 128 KiB")),
        (
            "  slices: {type: v4-32}\n  env:\n" + "".join(f"    A{n}: {'x' * 100_000}\n" for n in range(30)),
            ("the JobSet has 2.9 MiB", "at most 1.5 MiB"),
        ),
        ('  slices: {type: v4-32}\n  args: ["a\\0b"]\n', ("job.yaml:8", "must not contain NUL")),
        (
            "  slices: {type: v4-32}\n  tensorboard: {logs: /x, image: i, experiment: e}\n",
            ("job.yaml:8", "experiment requires instance"),
        ),
    ],
)
def test_error_has_line_and_field(tmp_path: Path, text: str, told: tuple[str, ...]) -> None:
    line = refused(tmp_path, text)
    assert all(words in line for words in told), line


@pytest.mark.parametrize("metadata", ["labels: {a b: c}", "labels: {a: c d}", "annotations: {/a: b}"])
def test_invalid_labels_are_errors(tmp_path: Path, metadata: str) -> None:
    line = refused(tmp_path, "  slices: {type: v4-32}\n", f"train, {metadata}")
    assert line.startswith(f"job.yaml:3: metadata.{metadata.partition(':')[0]}."), line
    assert "alphanumeric" in line or "non-empty" in line


def test_long_names_are_errors_with_the_maximum_length(tmp_path: Path) -> None:
    line = refused(tmp_path, "  slices: {type: l4-1}\n", "n" * 48)
    assert "its pods would be named" in line
    assert "use at most 47 characters" in line
    line = refused(tmp_path, "  slices: {type: v4-32}\n", "n" * 27)
    assert "use at most 26 characters" in line


def test_longest_valid_names_are_accepted(tmp_path: Path) -> None:
    for name, kind in (("n" * 47, "l4-1"), ("n" * 26, "v4-32")):
        file = tmp_path / "job.yaml"
        file.write_text(HEAD.format(name=name) + f"  slices: {{type: {kind}}}\n")
        assert submission.load(file).job.metadata.name == name


@pytest.mark.parametrize(
    "image",
    [
        "python",
        "a_b/c--d.e:1.2_3-x",
        "localhost:5000/a",
        "[::1]:5000/a/b",
        "US-docker.pkg.dev/my-project/a/b:stable",
        f"registry.k8s.io/pause:3.10@sha256:{'0a' * 32}",
    ],
)
def test_image_references_are_accepted(tmp_path: Path, image: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(HEAD.format(name="a").replace("image: i", f'image: "{image}"') + "  slices: {type: v4-32}\n  cpu: '239'\n")
    assert submission.load(file).job.spec.image == image


def test_other_kind_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: sliceworks.dev/v1alpha1\nkind: TrainingJobs\nmetadata: {name: a}\n")
    with pytest.raises(InvalidDocument, match="did you mean TrainingJob"):
        submission.load(file)
