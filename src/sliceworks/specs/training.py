"""TrainingJob: work on TPU slices or GPU machines that goes through a queue, and the helpers that run beside it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sliceworks.base import names, quantity
from sliceworks.specs import parts
from sliceworks.specs.model import Metadata, Name, Seconds, Spec

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
ExitCode = Annotated[int, Field(ge=1, le=255)]
SLICE = parts.SLICE


def _variable(value: str) -> str:
    for problem in names.strict_environment_name_errors(value):
        raise ValueError(problem)
    return value


def _amount(value: str) -> str:
    quantity.parse(value)
    return value


def _image(value: str) -> str:
    if not value or any(letter.isspace() for letter in value) or value != value.strip("/:@"):
        raise ValueError(f"must name an image such as us-docker.pkg.dev/project/training/jax:1, found {value!r}")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"must begin with /, found {value!r}")
    return value


def _part(value: str) -> str:
    for problem in names.dns1035_label_errors(value):
        raise ValueError(problem)
    return value


Variable = Annotated[str, AfterValidator(_variable)]
Amount = Annotated[str, AfterValidator(_amount)]
Folder = Annotated[str, AfterValidator(_absolute)]
Part = Annotated[str, AfterValidator(_part)]
Image = Annotated[str, AfterValidator(_image)]
Port = Annotated[int, Field(ge=1024, le=65535)]


class Slices(Spec):
    """What it runs on: a type such as `v4-32` or `l4-1`, or an accelerator with its topology; and how many of it."""

    type: str = Field(default="", description="Such as v5p-32 or l4-1: `sliceworks accelerators list` has all.")
    accelerator: str = Field(default="", description="Such as tpu-v4-podslice, with a topology, in place of a type.")
    topology: str = Field(default="", description="Where a type has several; the most compact when left out.")
    chips_per_host: Count | None = Field(default=None, description="Where a topology has two kinds of machines.")
    count: Count = Field(default=1, description="How many slices work as one.")
    capacity: Literal["on-demand", "spot", "reservation"] = "on-demand"
    reservation: str = Field(default="", description="The name of the reservation, with that capacity.")

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if bool(self.type) == bool(self.accelerator):
            raise ValueError("give a type, or an accelerator with its topology")
        if self.accelerator and not self.topology:
            raise ValueError(f"accelerator {self.accelerator} needs a topology")
        if self.capacity == "reservation" and not self.reservation:
            raise ValueError("capacity: reservation needs the reservation's name: reservation: NAME")
        if self.reservation and self.capacity != "reservation":
            raise ValueError(f"reservation {self.reservation} needs capacity: reservation, found {self.capacity}")
        return self


class Secret(Spec):
    """One key of a Secret as a variable, or a whole Secret as files."""

    secret: Name
    key: str = Field(default="", description="Which key; only with env.")
    env: Variable | None = Field(default=None, description="The variable that has the key's value.")
    mount_path: Folder | None = Field(default=None, description="The folder in which each key is a file.")

    @model_validator(mode="after")
    def _one_use(self) -> Self:
        if (self.env is None) == (self.mount_path is None):
            raise ValueError("give env or mountPath, one of them")
        if (self.env is None) == bool(self.key):
            raise ValueError("env needs a key; mountPath takes the whole Secret")
        return self


class GcsFuse(Spec):
    """A bucket of Cloud Storage, mounted by GCS FUSE."""

    bucket: str
    options: list[str] = Field(default_factory=lambda: ["implicit-dirs"])


class Nfs(Spec):
    """A share of a Filestore instance, or of any NFS server."""

    server: str
    path: Folder


class Volume(Spec):
    """Files that all hosts see."""

    name: Part
    mount_path: Folder
    read_only: bool = False
    gcs_fuse: GcsFuse | None = Field(default=None, description="A bucket of Cloud Storage.")
    pvc: Name | None = Field(default=None, description="A PersistentVolumeClaim of the namespace, of any kind of storage.")
    filestore: Nfs | None = Field(default=None, description="A share of a Filestore instance.")
    nfs: Nfs | None = Field(default=None, description="A share of any NFS server.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(each is not None for each in (self.gcs_fuse, self.pvc, self.filestore, self.nfs)) != 1:
            raise ValueError("give one of gcsFuse, pvc, filestore and nfs")
        return self


class RestartRule(Spec):
    """What an exit code means."""

    exit_codes: Annotated[list[ExitCode], Field(min_length=1)]
    action: Literal["fail", "restart", "restart-for-free"] = Field(
        description="End the job; start it again; or start it again without counting that against `max`."
    )


class Restarts(Spec):
    """How often everything starts again when a host fails."""

    max: Natural = Field(default=0, description="So often at most; spot machines that are taken away do not count.")
    rules: list[RestartRule] = Field(default_factory=list, description="What exit codes mean; every other failure is a restart.")

    @model_validator(mode="after")
    def _codes_once(self) -> Self:
        codes = [code for rule in self.rules for code in rule.exit_codes]
        twice = sorted({code for code in codes if codes.count(code) > 1})
        if twice:
            raise ValueError(f"exit code {twice[0]} has two rules")
        return self


class Helper(Spec):
    """A job beside the slices, on ordinary machines. It ends with the training, and never ends it."""

    name: Part
    image: Image
    command: list[str] = Field(default_factory=list)
    args: list[str] = Field(default_factory=list)
    env: dict[Variable, str] = Field(default_factory=dict)
    service_account: Name | None = None
    pool: str = Field(default="", description="The node pool it runs in; any without accelerators when left out.")
    cpu: Amount = "1"
    memory: Amount = "2Gi"


class Step(Helper):
    """A job before or after the training, on ordinary machines. When it has failed that many times, everything begins again."""

    tries: Count = 3
    estimate: Seconds | None = Field(default=None, description="How long it is expected to run. A twin lets it run for that long.")
    volumes: bool = Field(default=True, description="Whether it sees the volumes that the training sees.")


class TensorBoard(Spec):
    """Shows what the training logs: by an uploader to a Vertex AI TensorBoard, or without an instance by one of its own."""

    instance: str = Field(
        default="",
        pattern=r"^(projects/[^/]+/locations/[^/]+/tensorboards/[^/]+)?$",
        description="The Vertex AI TensorBoard to upload to; a plain TensorBoard runs beside the slices when left out.",
    )
    logs: str = Field(min_length=1, description="The folder that the training writes, such as gs://bucket/runs/first.")
    experiment: str = Field(default="", description="The job's name when left out; only with an instance.")
    image: Image = Field(description="Has the program tb-gcp-uploader, or without an instance tensorboard.")
    port: Port = Field(default=6006, description="Where a plain TensorBoard is seen.")
    service_account: Name | None = None
    pool: str = Field(default="", description="The node pool it runs in; any without accelerators when left out.")

    @model_validator(mode="after")
    def _experiment_needs_instance(self) -> Self:
        if self.experiment and not self.instance:
            raise ValueError("an experiment is a matter of Vertex AI: give the instance too")
        return self


class TrainingSpec(Spec):
    """The work."""

    queue: Name = Field(description="The team's LocalQueue.")
    priority: Name | None = Field(default=None, description="Such as low, medium or high: a WorkloadPriorityClass.")
    slices: Slices
    image: Image = Field(description="What every host runs.")
    command: list[str] = Field(default_factory=list, description="In place of the image's own entry point.")
    args: list[str] = Field(default_factory=list, description="Arguments of the command, or of the image's entry point.")
    script: str = Field(default="", description="A file beside the document, .py or .sh, that is run in place of a command.")
    env: dict[Variable, str] = Field(default_factory=dict, description="Variables; they win over those that are set by themselves.")
    xla_flags: list[str] = Field(default_factory=list, description="What the program finds in XLA_FLAGS.")
    libtpu_args: list[str] = Field(default_factory=list, description="What the program finds in LIBTPU_INIT_ARGS.")
    secrets: list[Secret] = Field(default_factory=list, description="Secrets of the namespace, as variables or files.")
    volumes: list[Volume] = Field(default_factory=list, description="Folders that every host sees.")
    restarts: Restarts = Restarts()
    checkpoints: str = Field(default="", description="A folder that the program finds in CHECKPOINT_DIR.")
    time_to_live: Seconds | None = Field(default=None, description="How long the finished job is kept.")
    deadline: Seconds | None = Field(default=None, description="The longest that one attempt may run.")
    estimate: Seconds | None = Field(default=None, description="How long it is expected to run. A twin lets it run for that long.")
    service_account: Name | None = Field(default=None, description="The service account of the slices' pods.")
    user: Count = Field(default=1000, description="The user id that containers run as; never root.")
    cpu: Amount | None = Field(default=None, description="CPU that each host asks for; most of what it has when left out.")
    memory: Amount | None = Field(default=None, description="Memory that each host asks for; most of what it has when left out.")
    tensorboard: TensorBoard | None = None
    helpers: list[Helper] = Field(default_factory=list, description="Jobs beside the slices, which end with them.")
    before: list[Step] = Field(default_factory=list, description="Jobs that must complete first, one after another.")
    after: list[Step] = Field(default_factory=list, description="Jobs that follow the complete training, one after another.")

    @property
    def beside(self) -> list[Helper]:
        """All jobs but the training itself and the uploader."""
        return [*self.before, *self.after, *self.helpers]

    @model_validator(mode="after")
    def _one_program(self) -> Self:
        if self.script and (self.command or self.args):
            raise ValueError("give a script or a command, not both")
        if self.script and not self.script.endswith((".py", ".sh")):
            raise ValueError(f"a script is a .py or a .sh file, found {self.script}")
        return self

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        for what, named in (
            ("a job within it", [SLICE, *(["tensorboard"] if self.tensorboard else []), *(each.name for each in self.beside)]),
            ("a volume", ["shared-memory", *(each.name for each in self.volumes)]),
        ):
            twice = sorted({name for name in named if named.count(name) > 1})
            if twice:
                raise ValueError(f"{what} is named twice: {twice[0]}")
        return self


class TrainingMetadata(Metadata):
    """Who it is, and in which team's namespace."""

    namespace: Name | None = None


class TrainingJob(Spec):
    """The document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["TrainingJob"]
    metadata: TrainingMetadata
    spec: TrainingSpec
