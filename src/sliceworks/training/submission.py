"""A TrainingJob loaded from its document with its script, validated, ready to be submitted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import names, quantity
from sliceworks.base.errors import InvalidDocument, SliceworksError, UnknownAccelerator
from sliceworks.specs import SLICE_JOB
from sliceworks.specs.documents import DocumentProblem
from sliceworks.training.pod_template import coordinator_address
from sliceworks.training.slice_request import resolve_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.base.yaml_documents import Document
    from sliceworks.specs.training import Slices, TrainingJob
    from sliceworks.training.slice_request import SliceRequest

    _Path = tuple[str | int, ...]

_MAX_NAME_LENGTH = 63
_SUFFIX = "-abcde"
_MAX_SCRIPT_SIZE = 120_000  # one argument of a program is at most 128 KiB
_MAX_ARGUMENT_SIZE = 128 * 1024 - 1  # bytes of one argument or variable, which Linux limits
_MAX_OBJECT_SIZE = 1536 * 1024  # bytes of a request that etcd accepts
_MAX_HOSTS = 65_000  # nodes of a GKE cluster


def validate(job: TrainingJob, script: str = "") -> list[DocumentProblem]:
    """All problems of a TrainingJob."""
    try:
        request = resolve_request(job.spec.slices)
    except SliceworksError as error:
        return [DocumentProblem(("spec", "slices", _invalid_field(job.spec.slices, error)), error.message, error.hint)]
    problems = [*_check_name_lengths(job, request), *_check_size(job, request), *_check_strings(job)]
    if len(script.encode()) > _MAX_SCRIPT_SIZE:
        problems.append(
            DocumentProblem(("spec", "script"), f"the script is longer than {_MAX_SCRIPT_SIZE} bytes", "put it into the image")
        )
    if not problems and (size := _object_size(job, script)) > _MAX_OBJECT_SIZE:
        message = f"the JobSet has {size / 2**20:.1f} MiB, and a cluster stores objects of at most 1.5 MiB"
        problems.append(DocumentProblem(("spec",), message, "put files into the image, a bucket or a ConfigMap"))
    return problems


def _check_size(job: TrainingJob, request: SliceRequest) -> Iterator[DocumentProblem]:
    """More hosts than a cluster has, no time to run, or requests that no host of the type can hold."""
    if request.hosts > _MAX_HOSTS:
        message = f"{request.count} slices have {request.hosts:,} hosts, and a GKE cluster has at most {_MAX_HOSTS:,} nodes"
        yield _problem(("spec", "slices", "count"), message)
    if job.spec.deadline is not None and job.spec.deadline < 1:
        yield _problem(("spec", "deadline"), f"must be at least 1s, found {job.spec.deadline:g}s")
    allocatable = request.shape.machine.allocatable()
    for field, value in (("cpu", job.spec.cpu), ("memory", job.spec.memory)):
        if value is not None and quantity.parse(value) > quantity.parse(allocatable[field]):
            host = f"a host of {request.shape.type_name} ({request.shape.machine.name})"
            message = f"{host} has {allocatable[field]} for pods, found {value}"
            yield _problem(("spec", field), message, "request less, or remove the field")


def _check_strings(job: TrainingJob) -> Iterator[DocumentProblem]:
    """Arguments and variables that Linux cannot pass to a program: they contain NUL or are too long."""
    spec = job.spec
    parts: list[tuple[_Path, list[str], list[str], dict[str, str]]] = [(("spec",), spec.command, spec.args, spec.env)]
    for field, jobs in (("before", spec.before), ("after", spec.after), ("helpers", spec.helpers)):
        parts += [(("spec", field, number), side_job.command, side_job.args, side_job.env) for number, side_job in enumerate(jobs)]
    for path, command, args, env in parts:
        strings: list[tuple[_Path, str, int]] = [((*path, "command", number), value, 0) for number, value in enumerate(command)]
        strings += [((*path, "args", number), value, 0) for number, value in enumerate(args)]
        strings += [((*path, "env", name), value, len(name) + 1) for name, value in env.items()]
        for field_path, value, prefix_size in strings:
            if "\0" in value:
                yield _problem(field_path, "must not contain NUL")
            elif len(value.encode()) + prefix_size > _MAX_ARGUMENT_SIZE:
                yield _problem(
                    field_path, "is longer than 128 KiB, the limit of Linux", "put it into a file of the image or a bucket"
                )


def _problem(path: _Path, message: str, hint: str = "") -> DocumentProblem:
    """A problem whose message begins with the path of the field."""
    return DocumentProblem(path, f"{'.'.join(map(str, path))}: {message}", hint)


def _object_size(job: TrainingJob, script: str) -> int:
    import orjson

    from sliceworks.training.jobset import build_jobset

    return len(orjson.dumps(build_jobset(job, script=script)))


def _invalid_field(slices: Slices, error: SliceworksError) -> str:
    """The field to report."""
    if isinstance(error, UnknownAccelerator):
        return "accelerator" if slices.accelerator else "type"
    if slices.topology:
        return "topology"
    return "type" if slices.chips_per_host is None else "chipsPerHost"


def _check_name_lengths(job: TrainingJob, request: SliceRequest) -> Iterator[DocumentProblem]:
    path, name = ("metadata", "name"), job.metadata.name
    errors = names.dns1035_label_errors(name)
    if errors and len(name) <= _MAX_NAME_LENGTH:
        yield DocumentProblem(path, f"{name!r}: {errors[0]}")
        return
    pod_names = [f"{name}-{SLICE_JOB}-{request.count - 1}-{request.shape.hosts - 1}{_SUFFIX}"]
    side_jobs = [*(["tensorboard"] if job.spec.tensorboard else []), *(side_job.name for side_job in job.spec.side_jobs)]
    pod_names += [f"{name}-{item}-0-0{_SUFFIX}" for item in side_jobs]
    longest = max(pod_names, key=len)
    excess, reason = len(longest) - _MAX_NAME_LENGTH, f"its pods would be named {longest}"
    if request.multi_process and (excess_of_both := (len(coordinator_address(job)) - _MAX_NAME_LENGTH + 1) // 2) > max(excess, 0):
        excess, reason = excess_of_both, f"its coordinator address {coordinator_address(job)} must be a valid label value"
    if excess > 0:
        problem = f"the name {name} is too long: {reason}; the limit is {_MAX_NAME_LENGTH} characters"
        yield DocumentProblem(path, problem, f"use at most {len(name) - excess} characters")


@dataclass(frozen=True, slots=True)
class Submission:
    """A TrainingJob that is ready to be submitted."""

    job: TrainingJob
    request: SliceRequest
    script: str
    document: Document

    def jobset(self, namespace: str = "") -> dict[str, Any]:
        """The JobSet, in `namespace` or else in the document's."""
        from sliceworks.training.jobset import build_jobset

        return build_jobset(self.job, namespace=namespace, script=self.script)


def load(file: Path) -> Submission:
    """Load the TrainingJob of a file; raises its first problem, which holds the others."""
    from sliceworks.base import yaml_documents

    return from_document(yaml_documents.load_one(file, "TrainingJob"), yaml_documents.base_directory(file))


def from_document(document: Document, folder: Path = Path()) -> Submission:
    """Create a submission from a document; its script is read from `folder`."""
    from sliceworks.specs import documents
    from sliceworks.specs.training import TrainingJob
    from sliceworks.training.slice_request import resolve_request

    job = documents.read_as(document, TrainingJob)
    script = _script(job, document, folder)
    if problems := validate(job, script):
        raise InvalidDocument.first_of(problem.to_error(document) for problem in problems)
    return Submission(job, resolve_request(job.spec.slices), script, document)


def _script(job: TrainingJob, document: Document, folder: Path) -> str:
    if not job.spec.script:
        return ""
    try:
        return (folder / job.spec.script).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        place = document.place("spec", "script")
        raise InvalidDocument(f"script {job.spec.script}: {reason}", place=place, hint=f"it is read from {folder}") from error
