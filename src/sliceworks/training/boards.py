"""TensorBoard beside the slices: an uploader to Vertex AI's, or a plain one that shows what the training has written. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.specs.training import Helper
from sliceworks.training import storage

if TYPE_CHECKING:
    from sliceworks.specs.training import TrainingJob

Object = dict[str, Any]
TENSORBOARD = "tensorboard"


def helper(job: TrainingJob) -> Helper:
    """The helper that a document's `tensorboard` means."""
    board = job.spec.tensorboard
    assert board is not None
    if board.instance:
        program = "tb-gcp-uploader"
        args = [
            f"--tensorboard_resource_name={board.instance}",
            f"--logdir={board.logs}",
            f"--experiment_name={board.experiment or job.metadata.name}",
            "--one_shot=False",
        ]
    else:
        program, args = "tensorboard", [f"--logdir={board.logs}", "--bind_all", f"--port={board.port}"]
    written = {"name": TENSORBOARD, "image": board.image, "command": [program], "args": args}
    return Helper.model_validate({**written, "serviceAccount": board.service_account, "pool": board.pool})


def finished(job: TrainingJob, replicated: Object) -> Object:
    """Its replicated Job with what only a TensorBoard has: a port to be seen at, and the volumes in which the logs lie."""
    board = job.spec.tensorboard
    assert board is not None
    template = replicated["template"]["spec"]["template"]
    container = template["spec"]["containers"][0]
    if not board.instance:
        container["ports"] = [{"name": "http", "containerPort": board.port}]
    if _in_volume(job, board.logs):
        template["spec"]["volumes"] = storage.volumes(job.spec, host_network=False)
        container["volumeMounts"] = storage.mounts(job.spec)
        if markers := storage.markers(job.spec):
            replicated["template"]["spec"]["template"] = {"metadata": {"annotations": markers}, **template}
    return replicated


def _in_volume(job: TrainingJob, folder: str) -> bool:
    places = (each.mount_path.rstrip("/") for each in job.spec.volumes)
    return any(folder == place or folder.startswith(f"{place}/") for place in places)
