"""The environment that a training program finds. GKE tells the hosts of one TPU slice about each other; the rest is told here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.specs.training import SLICE

if TYPE_CHECKING:
    from sliceworks.specs.training import TrainingJob
    from sliceworks.training.shapes import Ask

Object = dict[str, Any]
_JOB_INDEX = "metadata.annotations['jobset.sigs.k8s.io/job-index']"
_JAX_PORT = 8476


def coordinator(job: TrainingJob) -> str:
    """The name of the first host of the first slice."""
    name = job.metadata.name
    return f"{name}-{SLICE}-0-0.{name}"


def variables(job: TrainingJob, ask: Ask) -> list[Object]:
    """All of them; what the document says comes last and wins."""
    spec = job.spec
    found: dict[str, Object] = {}
    if ask.is_tpu and ask.count > 1:
        found |= {
            "MEGASCALE_COORDINATOR_ADDRESS": {"value": coordinator(job)},
            "MEGASCALE_NUM_SLICES": {"value": str(ask.count)},
            "MEGASCALE_SLICE_ID": _from_field(_JOB_INDEX),
        }
    if ask.joined and (ask.count > 1 or not ask.is_tpu):
        found["JAX_COORDINATOR_ADDRESS"] = {"value": f"{coordinator(job)}:{_JAX_PORT}"}
        found["JAX_NUM_PROCESSES"] = {"value": str(ask.hosts)}
    if ask.joined and not ask.is_tpu:
        # A GPU machine is a job of its own, so that the number of the job is that of the process.
        found["JAX_PROCESS_ID"] = _from_field(_JOB_INDEX)
    for name, words in (("XLA_FLAGS", spec.xla_flags), ("LIBTPU_INIT_ARGS", spec.libtpu_args)):
        if words:
            found[name] = {"value": " ".join(words)}
    if spec.checkpoints:
        found["CHECKPOINT_DIR"] = {"value": spec.checkpoints}
    found |= {name: {"value": value} for name, value in spec.env.items()}
    for secret in spec.secrets:
        if secret.env:
            found[secret.env] = {"valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key}}}
    return [{"name": name, **value} for name, value in found.items()]


def _from_field(path: str) -> Object:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}
