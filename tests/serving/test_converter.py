"""The scripts of a Sax cell with fake gcloud, Python and saxutil: any failing step fails them."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.model_services import example

from sliceworks.serving.compiler import manifests

if TYPE_CHECKING:
    from pathlib import Path

# Each records its arguments; the one configured to fail fails.
GCLOUD = """#!/bin/bash
marks=""
if [ "$2" = rsync ]; then marks=" $(find . -name commit_success.txt | sort | tr '\\n' ' ')"; fi
echo "gcloud $*$marks" >> "$LOG"
[[ "$*$marks" != $FAIL ]] || exit 7
[[ "$*" != storage\\ ls\\ *converted-* || -n "$DONE" ]] || exit 1
"""
PYTHON = """#!/bin/bash
echo "python3 $*" >> "$LOG"
[[ "python3 $*" != $FAIL ]] || exit 9
if [[ "$*" == -c* ]]; then echo /opt/tools; exit 0; fi
if [[ "$*" == */offline_quantize.py* ]]; then mkdir -p "${3#*=}" && echo eight > "${3#*=}/a"; exit 0; fi
[ -n "$EMPTY" ] || { mkdir -p "$6/checkpoint_00000000/state" && echo weights > "$6/checkpoint_00000000/state/a"; }
"""


SAXUTIL = """#!/bin/bash
echo "saxutil $*" >> "$LOG"
case "$1" in
  ls) [ -e "$WORK/published" ];;
  publish) touch "$WORK/published";;
  unpublish) rm "$WORK/published";;
  lm.generate) [ "$(cat "$WORK/state")" = loaded ];;
esac
"""
SLEEP = """#!/bin/bash
echo "$LATER" > "$WORK/state"
"""


def run_script(tmp_path: Path, script: str, **variables: str) -> tuple[int, list[str]]:
    """Run a script; returns the calls of the programs."""
    for name, text in (("gcloud", GCLOUD), ("python3", PYTHON), ("saxutil", SAXUTIL), ("sleep", SLEEP)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    given = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "LOG": str(log), "WORK": str(tmp_path), **variables}
    done = subprocess.run(["bash", "-c", script], env=given, capture_output=True, check=False)
    return done.returncode, log.read_text().splitlines()


def script_of(name: str, kind: str) -> str:
    [job] = [obj for obj in manifests(example(name)) if f"-{kind}-" in obj["metadata"]["name"]]
    return str(job["spec"]["template"]["spec"]["containers"][0]["command"][2])


def run(
    tmp_path: Path, fail: str = "nothing", empty: str = "", done: str = "", name: str = "llama2-7b-saxml"
) -> tuple[int, list[str]]:
    script = script_of(name, "convert").replace("/checkpoints", str(tmp_path / "work"))
    code, log = run_script(tmp_path, script, FAIL=fail, EMPTY=empty, DONE=done)
    assert log[0].startswith("gcloud storage ls gs://my-project-saxml-models/llama2-")
    return code, log[1:]


def test_checkpoint_is_downloaded_converted_uploaded_and_marked(tmp_path: Path) -> None:
    code, log = run(tmp_path)
    assert code == 0
    target = "gs://my-project-saxml-models/llama2-7b"
    assert log[0] == f"gcloud storage cp --recursive gs://my-project-saxml-models/meta/llama-2-7b/* {tmp_path}/work/base"
    assert log[1].startswith("python3 -m saxml.tools.convert_llama_ckpt --base ")
    assert log[1].endswith(" --model-size=7b")
    assert log[2].split() == f"gcloud storage rsync --recursive . {target}".split()
    assert re.fullmatch(f"gcloud storage cp commit_success.txt {target}/converted-[0-9a-f]{{8}}", log[-1])
    folders = ("./checkpoint_00000000", "./checkpoint_00000000/state", ".")
    assert log[3].split() == [*log[2].split(), *(f"{folder}/commit_success.txt" for folder in folders)]


@pytest.mark.parametrize(
    "fail",
    [
        "storage cp --recursive gs://*",
        "python3*",
        "storage rsync --recursive . *",
        "storage rsync --recursive . *commit_success.txt*",
        "storage ls *commit_success.txt",
        "storage cp commit_success.txt *converted-*",
    ],
)
def test_any_failed_step_fails_the_job(tmp_path: Path, fail: str) -> None:
    code, _ = run(tmp_path, fail)
    assert code != 0


def test_converter_without_output_fails(tmp_path: Path) -> None:
    code, log = run(tmp_path, empty="yes")
    assert code == 1
    assert not any("storage rsync" in line for line in log)


def test_converted_checkpoint_is_skipped(tmp_path: Path) -> None:
    assert run(tmp_path, done="yes") == (0, [])


def test_int8_weights_replace_bf16_weights(tmp_path: Path) -> None:
    code, log = run(tmp_path, name="llama2-13b-saxml")
    assert code == 0
    state = f"{tmp_path}/work/pax/checkpoint_00000000/state"
    tool = "python3 /opt/tools/offline_quantize.py"
    assert log[3] == f"{tool} --input_dir={tmp_path}/work/float --output_dir={state} --quantization_configs=gptj"
    assert (tmp_path / "work/float/a").read_text() == "weights\n"
    assert (tmp_path / "work/pax/checkpoint_00000000/state/a").read_text() == "eight\n"
    assert run(tmp_path, "python3 */offline_quantize.py*", name="llama2-13b-saxml")[0] != 0


@pytest.mark.parametrize(("there", "later", "code"), [("loaded", "", 0), ("loading", "loaded", 0), ("loading", "", 3)])
def test_model_is_published_when_ready(tmp_path: Path, there: str, later: str, code: int) -> None:
    (tmp_path / "state").write_text(there)
    script = script_of("llama2-7b-saxml", "publish")
    assert "-ge 1800 ]" in script
    ended, log = run_script(tmp_path, script if later or not code else script.replace("-ge 1800 ]", "-ge 0 ]"), LATER=later)
    assert ended == code
    assert log[0] == "saxutil ls /sax/test/llama2-7b"
    assert log[1].startswith("saxutil publish /sax/test/llama2-7b saxml.server.pax.lm.params.lm_cloud.LLaMA7BFP16TPUv5e gs://")
    requests = [line for line in log[2:] if line == "saxutil lm.generate /sax/test/llama2-7b Hello"]
    assert len(requests) == (2 if later else 1)


def test_existing_model_is_republished(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("loaded")
    (tmp_path / "published").touch()
    code, log = run_script(tmp_path, script_of("llama2-7b-saxml", "publish"))
    assert (code, [line.split()[1] for line in log]) == (0, ["ls", "unpublish", "publish", "lm.generate", "ls"])


def test_cell_is_recorded_before_the_admin_starts(tmp_path: Path) -> None:
    [admin] = [
        obj
        for obj in manifests(example("llama2-70b-saxml"))
        if obj["metadata"]["name"] == "llama2-70b-admin" and obj["kind"] == "Deployment"
    ]
    for name in ("admin_config", "admin_server"):
        (tmp_path / name).write_text(f'#!/bin/bash\necho "{name} $*" >> "$LOG"\n')
        (tmp_path / name).chmod(0o755)
    code, log = run_script(tmp_path, admin["spec"]["template"]["spec"]["containers"][0]["command"][2])
    cell = "--sax_cell=/sax/llama70b --sax_root=gs://my-project-saxml-admin/sax-root"
    assert code == 0
    assert log == [
        f"admin_config {cell} --fs_root=gs://my-project-saxml-admin/sax-fs-root --alsologtostderr",
        f"admin_server {cell} --port=10000 --alsologtostderr",
    ]
