"""Jobs beside the slices: the TensorBoard uploader, and any other. They run on ordinary machines, and never end the training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.specs.training import Helper

if TYPE_CHECKING:
    from sliceworks.specs.training import TrainingJob

Object = dict[str, Any]
_ALWAYS_AGAIN = 2**31 - 1
_POOL = "cloud.google.com/gke-nodepool"


def replicated_jobs(job: TrainingJob) -> list[Object]:
    """One for each."""
    uploader = [_uploader(job)] if job.spec.tensorboard else []
    return [_replicated(each, job.spec.user) for each in (*uploader, *job.spec.helpers)]


def _uploader(job: TrainingJob) -> Helper:
    board = job.spec.tensorboard
    assert board is not None
    args = [
        f"--tensorboard_resource_name={board.instance}",
        f"--logdir={board.logs}",
        f"--experiment_name={board.experiment or job.metadata.name}",
        "--one_shot=False",
    ]
    written = {"name": "tensorboard", "image": board.image, "command": ["tb-gcp-uploader"], "args": args}
    return Helper.model_validate({**written, "serviceAccount": board.service_account, "pool": board.pool})


def _replicated(helper: Helper, user: int) -> Object:
    pod: Object = {
        "restartPolicy": "OnFailure",
        **({"serviceAccountName": helper.service_account} if helper.service_account else {}),
        **({"nodeSelector": {_POOL: helper.pool}} if helper.pool else {}),
        "securityContext": {"runAsNonRoot": True, "runAsUser": user, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(helper)],
    }
    # A helper that fails begins again, and never counts as a failure of the training.
    spec = {"parallelism": 1, "completions": 1, "backoffLimit": _ALWAYS_AGAIN, "template": {"spec": pod}}
    return {"name": helper.name, "replicas": 1, "template": {"spec": spec}}


def _container(helper: Helper) -> Object:
    env = [{"name": name, "value": value} for name, value in helper.env.items()]
    return {
        "name": helper.name,
        "image": helper.image,
        **({"command": helper.command} if helper.command else {}),
        **({"args": helper.args} if helper.args else {}),
        **({"env": env} if env else {}),
        "resources": {"requests": {"cpu": helper.cpu, "memory": helper.memory}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
