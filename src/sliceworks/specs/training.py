"""TrainingJob: a job on TPU slices or GPU machines, submitted through a queue, and its helper jobs."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sliceworks.base import names
from sliceworks.specs import SLICE_JOB
from sliceworks.specs.common import (
    Amount,
    Name,
    NamespacedMetadata,
    Natural,
    Positive,
    Seconds,
    Spec,
    Variable,
    check_unique,
    exactly_one_of,
    matching,
    valid,
)

ExitCode = Annotated[int, Field(ge=1, le=255)]


def _image(value: str) -> str:
    if names.image_error(value):
        shown = repr(value if len(value) <= names.LONGEST_IMAGE else f"{value[:60]}…")
        raise ValueError(f"must name an image such as us-docker.pkg.dev/project/training/jax:1, got {shown}")
    return value


AbsolutePath = Annotated[str, matching(r"(?s)/.*", "an absolute path")]
Label = Annotated[str, valid(names.dns1035_label_errors)]
Image = Annotated[str, AfterValidator(_image)]
Port = Annotated[int, Field(ge=1024, le=65535)]


class Slices(Spec):
    """The slices of a job: a type such as `v4-32` or `l4-1`, or an accelerator with a topology, and a count."""

    type: str = Field(default="", description="Such as v5p-32 or l4-1; see `sliceworks accelerators list`.")
    accelerator: str = Field(default="", description="Such as tpu-v4-podslice, with a topology; alternative to type.")
    topology: str = Field(default="", description="Default: the most compact topology of the type.")
    chips_per_host: Positive | None = Field(default=None, description="For topologies with several machine types.")
    count: Positive = Field(default=1, description="Number of slices.")
    capacity: Literal["on-demand", "spot", "reservation"] = "on-demand"
    reservation: str = Field(default="", description="Name of the reservation; requires `capacity: reservation`.")

    _check_type = exactly_one_of("type", "accelerator")

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.accelerator and not self.topology:
            raise ValueError(f"accelerator {self.accelerator} requires a topology")
        if self.capacity == "reservation" and not self.reservation:
            raise ValueError("capacity: reservation requires reservation: NAME")
        if self.reservation and self.capacity != "reservation":
            raise ValueError(f"reservation {self.reservation} requires capacity: reservation, got {self.capacity}")
        return self


class Secret(Spec):
    """One key of a Secret as an environment variable, or a whole Secret as files."""

    secret: Name
    key: str = Field(default="", description="Key of the Secret; only with env.")
    env: Variable | None = Field(default=None, description="Environment variable to set.")
    mount_path: AbsolutePath | None = Field(default=None, description="AbsolutePath to mount the keys in, as files.")

    _check_use = exactly_one_of("env", "mount_path")

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if (self.env is None) == bool(self.key):
            raise ValueError("key: required with env, not allowed with mountPath")
        return self


class GcsFuse(Spec):
    """A Cloud Storage bucket, mounted by Cloud Storage FUSE."""

    bucket: str
    options: list[str] = Field(default_factory=lambda: ["implicit-dirs"])


class Nfs(Spec):
    """A share of a Filestore instance, or of any NFS server."""

    server: str
    path: AbsolutePath


class Volume(Spec):
    """A volume that is mounted on all hosts."""

    name: Label
    mount_path: AbsolutePath
    read_only: bool = False
    gcs_fuse: GcsFuse | None = Field(default=None, description="A Cloud Storage bucket.")
    pvc: Name | None = Field(default=None, description="A PersistentVolumeClaim of the namespace.")
    filestore: Nfs | None = Field(default=None, description="A share of a Filestore instance.")
    nfs: Nfs | None = Field(default=None, description="A share of any NFS server.")

    _check_source = exactly_one_of("gcs_fuse", "pvc", "filestore", "nfs")


class RestartRule(Spec):
    """What to do on certain exit codes."""

    exit_codes: Annotated[list[ExitCode], Field(min_length=1)]
    action: Literal["fail", "restart", "restart-for-free"] = Field(
        description="Fail the job, restart it, or restart it without counting towards `max`."
    )


class Restarts(Spec):
    """The restart policy for failures of any host."""

    max: Natural = Field(default=0, description="Maximum number of restarts; preemptions of spot nodes do not count.")
    rules: list[RestartRule] = Field(default_factory=list, description="Rules by exit code; all other failures restart the job.")

    @model_validator(mode="after")
    def _check_exit_codes(self) -> Self:
        check_unique("exit code", [code for rule in self.rules for code in rule.exit_codes])
        return self


class HelperJob(Spec):
    """A job that runs beside the slices on CPU nodes and is stopped with them; its failure does not fail the training."""

    name: Label
    image: Image
    command: list[str] = Field(default_factory=list)
    args: list[str] = Field(default_factory=list)
    env: dict[Variable, str] = Field(default_factory=dict)
    service_account: Name | None = None
    pool: str = Field(default="", description="Node pool. Default: any pool without accelerators.")
    cpu: Amount = "1"
    memory: Amount = "2Gi"


class StepJob(HelperJob):
    """A job before or after the training, on CPU nodes. After `tries` failures the JobSet restarts."""

    tries: Positive = 3
    estimate: Seconds | None = Field(default=None, description="Expected run time; a twin simulates this duration.")
    volumes: bool = Field(default=True, description="Mounts the volumes of the training.")


class TensorBoard(Spec):
    """An uploader to a Vertex AI TensorBoard, or a TensorBoard server if no instance is given."""

    instance: str = Field(
        default="",
        pattern=r"^(projects/[^/]+/locations/[^/]+/tensorboards/[^/]+)?$",
        description="Vertex AI TensorBoard to upload to. Default: a TensorBoard server beside the slices.",
    )
    logs: str = Field(min_length=1, description="Log folder of the training, such as gs://bucket/runs/first.")
    experiment: str = Field(default="", description="Default: the job's name; only with an instance.")
    image: Image = Field(description="Image with tb-gcp-uploader, or with tensorboard if there is no instance.")
    port: Port = Field(default=6006, description="Port of the TensorBoard server.")
    service_account: Name | None = None
    pool: str = Field(default="", description="Node pool. Default: any pool without accelerators.")

    @model_validator(mode="after")
    def _check_experiment(self) -> Self:
        if self.experiment and not self.instance:
            raise ValueError("experiment requires instance")
        return self


class TrainingSpec(Spec):
    """Spec of a TrainingJob."""

    queue: Name = Field(description="The team's LocalQueue.")
    priority: Name | None = Field(default=None, description="A WorkloadPriorityClass, such as low, medium or high.")
    slices: Slices
    image: Image = Field(description="Container image of every host.")
    command: list[str] = Field(default_factory=list, description="Replaces the image's entry point.")
    args: list[str] = Field(default_factory=list, description="Arguments of the command or the entry point.")
    script: str = Field(default="", description="A .py or .sh file next to the document, run instead of a command.")
    env: dict[Variable, str] = Field(default_factory=dict, description="Environment variables; they override the built-in ones.")
    xla_flags: list[str] = Field(default_factory=list, description="Value of XLA_FLAGS.")
    libtpu_args: list[str] = Field(default_factory=list, description="Value of LIBTPU_INIT_ARGS.")
    secrets: list[Secret] = Field(default_factory=list, description="Secrets of the namespace, as environment variables or files.")
    volumes: list[Volume] = Field(default_factory=list, description="Volumes of every host.")
    restarts: Restarts = Restarts()
    checkpoints: str = Field(default="", description="Value of CHECKPOINT_DIR.")
    time_to_live: Seconds | None = Field(default=None, description="How long a finished job is kept.")
    deadline: Seconds | None = Field(default=None, description="Maximum run time of one attempt.")
    estimate: Seconds | None = Field(default=None, description="Expected run time; a twin simulates this duration.")
    service_account: Name | None = Field(default=None, description="Service account of the slices' pods.")
    user: Positive = Field(default=1000, description="User ID of the containers; never root.")
    cpu: Amount | None = Field(default=None, description="CPU request per host. Default: most of its allocatable CPU.")
    memory: Amount | None = Field(default=None, description="Memory request per host. Default: most of its allocatable memory.")
    tensorboard: TensorBoard | None = None
    helpers: list[HelperJob] = Field(default_factory=list, description="Jobs beside the slices; stopped with them.")
    before: list[StepJob] = Field(default_factory=list, description="Jobs to complete before the training, in order.")
    after: list[StepJob] = Field(default_factory=list, description="Jobs to run after the training has completed, in order.")

    @property
    def side_jobs(self) -> list[HelperJob]:
        """All jobs except the slices and TensorBoard."""
        return [*self.before, *self.after, *self.helpers]

    @model_validator(mode="after")
    def _check_script(self) -> Self:
        if self.script and (self.command or self.args):
            raise ValueError("script excludes command and args")
        if self.script and not self.script.endswith((".py", ".sh")):
            raise ValueError(f"script: must be a .py or .sh file, got {self.script}")
        return self

    @model_validator(mode="after")
    def _check_unique_names(self) -> Self:
        tensorboard = ["tensorboard"] if self.tensorboard else []
        check_unique("job name", [SLICE_JOB, *tensorboard, *(job.name for job in self.side_jobs)])
        check_unique("volume name", ["shared-memory", *(volume.name for volume in self.volumes)])
        return self


class TrainingJob(Spec):
    """A training job on one or more slices."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["TrainingJob"]
    metadata: NamespacedMetadata
    spec: TrainingSpec
