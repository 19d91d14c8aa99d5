"""Small folders to rehearse: fixed machines or an environment that Terraform creates; jobs, a model, a load test."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = """
apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: small-project
  region: us-west4
  zones: [us-west4-a]
  deletionProtection: false
  forceDestroy: true
  automation: {bucket: small-automation}
  pools:
    cpu: {machines: {machineType: n1-standard-8, nodes: 1}}
    tpu: {v5e: {type: v5litepod-4}}
  teams:
    vision: {}
"""
JOB = """
apiVersion: sliceworks.dev/v1alpha1
kind: TrainingJob
metadata: {{name: {name}, namespace: vision}}
spec:
  queue: queue
  priority: {priority}
  slices: {{type: v5litepod-4}}
  image: example.com/train:1
  command: [train]
  serviceAccount: trainer
  restarts: {{max: 2}}
  estimate: {estimate}
"""
SERVICE = """
apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {name: parrot, namespace: serving}
spec:
  engine: triton
  triton: {repository: gs://small-models, models: [{name: parrot}]}
"""
LOAD = """
apiVersion: sliceworks.dev/v1alpha1
kind: Gateway
metadata: {name: front}
spec:
  anonymous: true
  models: [{name: parrot, backends: [{kind: triton, url: "http://parrot.serving:8000"}]}]
---
apiVersion: sliceworks.dev/v1alpha1
kind: LoadTest
metadata: {name: little}
spec:
  target: {url: http://127.0.0.1:1}
  api: openai-chat
  model: parrot
  prompts: {texts: [Hello, Good morning]}
  stages: [{constant: 20, for: 1s}]
  slo: [errors < 1%]
  delivery: {share: 0.5, delay: 5s}
"""
EVENTS = """
  - {at: 1m, submit: {file: jobs/slow.yaml}}
  - {at: 10m, submit: {file: jobs/urgent.yaml}}
  - {at: 30m, failPods: {pods: {count: 1}, namespace: vision, exitCode: 9}}
"""
EXPECT = """
  - job: {name: slow, namespace: vision, outcome: succeeded, by: 3h, preempted: 1}
  - job: {name: urgent, namespace: vision, outcome: succeeded, restarted: 1, waited: 1m}
  - incident: {kind: preemption, about: vision/slow, within: 2h}
  - incident: {kind: crash}
"""


def write(
    folder: Path,
    *,
    terraform: bool = False,
    events: str = EVENTS,
    expect: str = EXPECT,
    load: bool = False,
    service: bool = False,
    duration: str = "4h",
) -> Path:
    """Write a folder with the requested documents."""
    (folder / "jobs").mkdir(parents=True)
    (folder / "jobs/slow.yaml").write_text(JOB.format(name="slow", priority="low", estimate="1h"))
    (folder / "jobs/urgent.yaml").write_text(JOB.format(name="urgent", priority="very-high", estimate="40m"))
    (folder / "environment.yaml").write_text(ENVIRONMENT)
    if service:
        (folder / "model.yaml").write_text(SERVICE)
    if load:
        (folder / "load.yaml").write_text(LOAD)
    created = "terraform" if terraform else "given"
    (folder / "day.yaml").write_text(
        f"""
apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {{name: small}}
spec:
  seed: 5
  start: 2026-11-16T08:00:00Z
  duration: {duration}
  environment: {created}
  events: {events or "[]"}
  expect: {expect or "[]"}
"""
    )
    return folder
