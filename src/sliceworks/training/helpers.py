"""Jobs on ordinary machines: steps before and after the training, and helpers beside it, which never end it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import NODE_POOL, RUN_SECONDS
from sliceworks.training import boards, storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.specs.training import Helper, Step, TrainingJob

Object = dict[str, Any]
_ALWAYS_AGAIN = 2**31 - 1


def replicated_jobs(job: TrainingJob) -> list[Object]:
    """One for each."""
    found = [_replicated(each, job.spec.user) for each in job.spec.helpers]
    return [boards.finished(job, _replicated(boards.helper(job), job.spec.user)), *found] if job.spec.tensorboard else found


def steps(job: TrainingJob, wanted: Iterable[Step]) -> list[Object]:
    """One for each step; they are put in order elsewhere."""
    return [_step(job, each) for each in wanted]


def _step(job: TrainingJob, step: Step) -> Object:
    found = _replicated(step, job.spec.user)
    spec, account = found["template"]["spec"], step.service_account or job.spec.service_account
    spec["backoffLimit"] = step.tries - 1
    pod = spec["template"]["spec"]
    pod["restartPolicy"] = "Never"
    # Files are the same user's and group's before, in and after the training.
    pod["securityContext"] |= {"runAsGroup": job.spec.user, "fsGroup": job.spec.user}
    if account:
        pod["serviceAccountName"] = account
    if step.volumes and (volumes := storage.volumes(job.spec, host_network=False)):
        pod["volumes"], pod["containers"][0]["volumeMounts"] = volumes, storage.mounts(job.spec)
    markers = storage.markers(job.spec) if step.volumes else {}
    if step.estimate is not None:
        markers[RUN_SECONDS] = f"{step.estimate:g}"
    if markers:
        spec["template"] = {"metadata": {"annotations": markers}, **spec["template"]}
    if job.spec.checkpoints:
        variables = pod["containers"][0].setdefault("env", [])
        variables.append({"name": "CHECKPOINT_DIR", "value": job.spec.checkpoints})
    return found


def _replicated(helper: Helper, user: int) -> Object:
    pod: Object = {
        "restartPolicy": "OnFailure",
        **({"serviceAccountName": helper.service_account} if helper.service_account else {}),
        **({"nodeSelector": {NODE_POOL: helper.pool}} if helper.pool else {}),
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
