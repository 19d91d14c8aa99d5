"""Compiles a TrainingJob into one JobSet: slices, steps, helpers, TensorBoard, failure policies. Pure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import EXCLUSIVE_TOPOLOGY, NODE_POOL, RUN_SECONDS
from sliceworks.specs import SLICE_JOB
from sliceworks.specs.training import HelperJob
from sliceworks.training import pod_template
from sliceworks.training.slice_request import SliceRequest, resolve_request
from sliceworks.training.status import PRIORITY_LABEL, QUEUE_LABEL, TYPE_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.specs.training import RestartRule, StepJob, TrainingJob, TrainingSpec

Object = dict[str, Any]
_ACTIONS = {"fail": "FailJobSet", "restart": "RestartJobSet", "restart-for-free": "RestartJobSetAndIgnoreMaxRestarts"}


def build_pod_failure_policy(spec: TrainingSpec, container: str) -> Object | None:
    """The podFailurePolicy of the slices, or None if no rule needs one."""
    rules: list[Object] = []
    for rule in spec.restarts.rules:
        codes = {"containerName": container, "operator": "In", "values": sorted(rule.exit_codes)}
        rules.append({"action": "FailJob", "onExitCodes": codes})
    if spec.slices.capacity == "spot":
        rules.append({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
    return {"rules": rules} if rules else None


def build_failure_policy(spec: TrainingSpec) -> Object:
    """The JobSet's failurePolicy. A reclaimed spot machine does not count as a restart."""
    rules = [_rule(number, rule) for number, rule in enumerate(spec.restarts.rules)]
    if spec.slices.capacity == "spot":
        patterns = ["has condition DisruptionTarget matching"]
        rules.append(_named_rule("spotMachineReclaimed", "RestartJobSetAndIgnoreMaxRestarts", patterns))
    return {"maxRestarts": spec.restarts.max, **({"rules": rules} if rules else {})}


def _rule(number: int, rule: RestartRule) -> Object:
    codes = "|".join(map(str, sorted(rule.exit_codes)))
    return _named_rule(f"exitCodes{number}", _ACTIONS[rule.action], [f"failed with exit code ({codes}) matching"])


def _named_rule(name: str, action: str, patterns: list[str]) -> Object:
    return {
        "name": name,
        "action": action,
        "targetReplicatedJobs": [SLICE_JOB],
        "onJobFailureReasons": ["PodFailurePolicy"],
        "onJobFailureMessagePatterns": patterns,
    }


TENSORBOARD = "tensorboard"


def tensorboard_helper(job: TrainingJob) -> HelperJob:
    """The helper job for the document's `tensorboard`."""
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
    fields = {"name": TENSORBOARD, "image": board.image, "command": [program], "args": args}
    return HelperJob.model_validate({**fields, "serviceAccount": board.service_account, "pool": board.pool})


def complete_tensorboard(job: TrainingJob, replicated: Object) -> Object:
    """Add the port and the volumes with the logs to the replicated job of TensorBoard."""
    board = job.spec.tensorboard
    assert board is not None
    template = replicated["template"]["spec"]["template"]
    container = template["spec"]["containers"][0]
    if not board.instance:
        container["ports"] = [{"name": "http", "containerPort": board.port}]
    if _is_in_volume(job, board.logs):
        template["spec"]["volumes"] = pod_template.build_volumes(job.spec, host_network=False)
        container["volumeMounts"] = pod_template.build_mounts(job.spec)
        if markers := pod_template.volume_annotations(job.spec):
            replicated["template"]["spec"]["template"] = {"metadata": {"annotations": markers}, **template}
    return replicated


def _is_in_volume(job: TrainingJob, folder: str) -> bool:
    mount_paths = (volume.mount_path.rstrip("/") for volume in job.spec.volumes)
    return any(folder == mount_path or folder.startswith(f"{mount_path}/") for mount_path in mount_paths)


_UNLIMITED_RETRIES = 2**31 - 1


def build_helper_jobs(job: TrainingJob) -> list[Object]:
    """The replicated jobs of TensorBoard and the helpers."""
    helpers = [_helper_job(helper, job.spec.user) for helper in job.spec.helpers]
    return (
        [complete_tensorboard(job, _helper_job(tensorboard_helper(job), job.spec.user)), *helpers]
        if job.spec.tensorboard
        else helpers
    )


def build_step_jobs(job: TrainingJob, steps: Iterable[StepJob]) -> list[Object]:
    """A replicated job for each step, without their order."""
    return [_step_job(job, step) for step in steps]


def _step_job(job: TrainingJob, step: StepJob) -> Object:
    result = _helper_job(step, job.spec.user)
    spec, account = result["template"]["spec"], step.service_account or job.spec.service_account
    spec["backoffLimit"] = step.tries - 1
    pod = spec["template"]["spec"]
    pod["restartPolicy"] = "Never"
    # Steps use the training's user and group, so that they can read each other's files.
    pod["securityContext"] |= {"runAsGroup": job.spec.user, "fsGroup": job.spec.user}
    if account:
        pod["serviceAccountName"] = account
    if step.volumes and (volumes := pod_template.build_volumes(job.spec, host_network=False)):
        pod["volumes"], pod["containers"][0]["volumeMounts"] = volumes, pod_template.build_mounts(job.spec)
    markers = pod_template.volume_annotations(job.spec) if step.volumes else {}
    if step.estimate is not None:
        markers[RUN_SECONDS] = f"{step.estimate:g}"
    if markers:
        spec["template"] = {"metadata": {"annotations": markers}, **spec["template"]}
    if job.spec.checkpoints:
        variables = pod["containers"][0].setdefault("env", [])
        variables.append({"name": "CHECKPOINT_DIR", "value": job.spec.checkpoints})
    return result


def _helper_job(helper: HelperJob, user: int) -> Object:
    pod: Object = {
        "restartPolicy": "OnFailure",
        **({"serviceAccountName": helper.service_account} if helper.service_account else {}),
        **({"nodeSelector": {NODE_POOL: helper.pool}} if helper.pool else {}),
        "securityContext": {"runAsNonRoot": True, "runAsUser": user, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_helper_container(helper)],
    }
    # A failed helper is retried without limit and never fails the training.
    spec = {"parallelism": 1, "completions": 1, "backoffLimit": _UNLIMITED_RETRIES, "template": {"spec": pod}}
    return {"name": helper.name, "replicas": 1, "template": {"spec": spec}}


def _helper_container(helper: HelperJob) -> Object:
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


_EXCLUSIVE = {EXCLUSIVE_TOPOLOGY: NODE_POOL}


def build_jobset(job: TrainingJob, *, namespace: str = "", script: str = "") -> Object:
    """The JobSet of a TrainingJob. `script` is the content of its script. Kueue suspends and resumes it."""
    request, spec = resolve_request(job.spec.slices), job.spec
    job_namespace = namespace or job.metadata.namespace
    labels = {**job.metadata.labels, TYPE_LABEL: request.shape.type_name, QUEUE_LABEL: spec.queue}
    if spec.priority:
        labels[PRIORITY_LABEL] = spec.priority
    metadata: Object = {"name": job.metadata.name, **({"namespace": job_namespace} if job_namespace else {}), "labels": labels}
    if job.metadata.annotations:
        metadata["annotations"] = dict(job.metadata.annotations)
    helpers, before, after = build_helper_jobs(job), build_step_jobs(job, spec.before), build_step_jobs(job, spec.after)
    jobset_spec: Object = {}
    if request.multi_process:
        jobset_spec["coordinator"] = {"replicatedJob": SLICE_JOB, "jobIndex": 0, "podIndex": 0}
    if helpers:
        targets = [SLICE_JOB, *(item["name"] for item in after)]
        jobset_spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": targets}
    jobset_spec["failurePolicy"] = build_failure_policy(spec)
    if spec.time_to_live is not None:
        jobset_spec["ttlSecondsAfterFinished"] = int(spec.time_to_live)
    jobset_spec["replicatedJobs"] = [*_in_order([*before, _slice_job(job, request, script), *after]), *helpers]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": jobset_spec}


def _in_order(jobs: list[Object]) -> list[Object]:
    """Each job depends on the completion of the previous one."""
    result = jobs[:1]
    for earlier, later in itertools.pairwise(jobs):
        dependency = {"dependsOn": [{"name": earlier["name"], "status": "Complete"}]}
        result.append({"name": later["name"], "replicas": later["replicas"], **dependency, "template": later["template"]})
    return result


def _slice_job(job: TrainingJob, request: SliceRequest, script: str) -> Object:
    """One Job for each slice. Only multi-host slices have exclusive node pools."""
    hosts = request.shape.hosts
    spec: Object = {"parallelism": hosts, "completions": hosts, "completionMode": "Indexed", "backoffLimit": 0}
    if job.spec.deadline is not None:
        spec["activeDeadlineSeconds"] = int(job.spec.deadline)
    policy = build_pod_failure_policy(job.spec, pod_template.CONTAINER)
    if policy:
        spec["podFailurePolicy"] = policy
    spec["template"] = pod_template.build_template(job, request, script)
    exclusive = {"metadata": {"annotations": dict(_EXCLUSIVE)}} if request.shape.multi_host else {}
    return {"name": SLICE_JOB, "replicas": request.count, "template": {**exclusive, "spec": spec}}
