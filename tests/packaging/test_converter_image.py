"""What the converter image has in the place of Apache Beam does what Sax's tool asks of it."""

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


def test_each_task_goes_through_the_function_once() -> None:
    done = run()
    assert (done.returncode, done.stdout.split()) == (0, ["1", "2"]), done.stderr


def test_what_the_tool_does_not_know_is_refused() -> None:
    done = run("--qantization_configs=gptj")
    assert done.returncode == 1
    assert "unknown arguments: --qantization_configs=gptj" in done.stderr


def test_the_image_finds_it() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert "COPY deploy/converter /opt/converter" in text
    assert "PYTHONPATH=/opt/saxml:/opt/converter" in text
