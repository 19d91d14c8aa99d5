"""The converter's script, run with programs that stand in for gcloud and for the module: the failure of any step is its own."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.model_services import example

from sliceworks.serving.compile import manifests

if TYPE_CHECKING:
    from pathlib import Path

# Each writes what it was asked for; the one that is to fail fails.
GCLOUD = """#!/bin/bash
echo "gcloud $*" >> "$LOG"
[[ "$*" != $FAIL ]] || exit 7
"""
PYTHON = """#!/bin/bash
echo "python3 $*" >> "$LOG"
[[ "python3 $*" != $FAIL ]] || exit 9
[ -n "$EMPTY" ] || { mkdir -p "$6/checkpoint_00000000/state" && echo weights > "$6/checkpoint_00000000/state/a"; }
"""


def run(tmp_path: Path, fail: str = "nothing", empty: str = "") -> tuple[int, list[str]]:
    [job] = [each for each in manifests(example("llama2-7b-saxml")) if "convert" in each["metadata"]["name"]]
    script = job["spec"]["template"]["spec"]["containers"][0]["command"][2].replace("/checkpoints", str(tmp_path / "work"))
    for name, text in (("gcloud", GCLOUD), ("python3", PYTHON)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "LOG": str(log), "FAIL": fail, "EMPTY": empty}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, check=False)
    return done.returncode, log.read_text().splitlines()


def test_a_checkpoint_is_downloaded_converted_uploaded_and_marked_last(tmp_path: Path) -> None:
    code, log = run(tmp_path)
    assert code == 0
    target = "gs://my-project-saxml-models/llama2-7b"
    assert log[0] == f"gcloud storage cp --recursive gs://my-project-saxml-models/meta/llama-2-7b/* {tmp_path}/work/base"
    assert log[1].startswith("python3 -m saxml.tools.convert_llama_ckpt --base ")
    assert log[1].endswith(" --model-size=7b")
    assert log[2] == f"gcloud storage cp --recursive . {target}"
    marks = {line.rpartition(" ")[2] for line in log[3:-1]}
    folders = ("", "checkpoint_00000000/", "checkpoint_00000000/state/")
    assert marks == {f"{target}/{folder}commit_success.txt" for folder in folders}


@pytest.mark.parametrize(
    "fail",
    [
        "storage cp --recursive gs://*",
        "python3*",
        "storage cp --recursive . *",
        "storage cp *state/commit_success.txt",
        "storage ls*",
    ],
)
def test_any_step_that_fails_fails_the_job(tmp_path: Path, fail: str) -> None:
    code, _ = run(tmp_path, fail)
    assert code != 0


def test_a_converter_that_writes_nothing_has_failed(tmp_path: Path) -> None:
    code, log = run(tmp_path, empty="yes")
    assert code == 1
    assert not any("storage cp --recursive ." in line for line in log)
