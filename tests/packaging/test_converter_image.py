"""The Apache Beam replacement in the converter image supports what Sax's tool uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy"
TOOL = """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions


class Halve(beam.DoFn):
    def setup(self):
        self.by = 2

    def process(self, task):
        print(task // self.by)


options = PipelineOptions(sys.argv[1:])
options.view_as(SetupOptions).save_main_session = True
with beam.Pipeline(options=options) as p:
    _ = p | beam.Create([2, 4]) | beam.ParDo(Halve())
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", TOOL, *arguments]
    return subprocess.run(command, env={"PYTHONPATH": str(DEPLOY / "converter")}, capture_output=True, text=True, check=False)


def test_pardo_processes_each_task_once() -> None:
    result = run()
    assert (result.returncode, result.stdout.split()) == (0, ["1", "2"]), result.stderr


def test_unknown_arguments_are_rejected() -> None:
    result = run("--qantization_configs=gptj")
    assert result.returncode == 1
    assert "unknown arguments: --qantization_configs=gptj" in result.stderr


def test_image_has_it_on_the_python_path() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert "COPY deploy/converter /opt/converter" in text
    assert "PYTHONPATH=/opt/converter:/opt/saxml" in text
