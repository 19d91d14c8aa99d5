"""Flags of `train submit` that build the same TrainingJob document as a file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import UsageError
from sliceworks.base.yaml_documents import Document
from sliceworks.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.cli.options import Command

Object = dict[str, Any]
_PLACES = {
    ("metadata", "name"): "NAME",
    ("metadata", "labels"): "--label",
    ("spec", "slices", "count"): "--slices",
    ("spec", "slices", "topology"): "--topology",
    ("spec", "slices", "reservation"): "--reservation",
    ("spec", "slices"): "--type",
    ("spec", "timeToLive"): "--time-to-live",
    ("spec", "serviceAccount"): "--service-account",
    ("spec", "restarts"): "--restarts",
    ("spec", "secrets"): "--secret",
    ("spec", "volumes"): "--mount",
    ("spec", "command"): "the command after --",
}
# Option, field of the document, help.
_TEXTS = (
    ("--queue", "queue", "NAME", "Queue of the team."),
    ("--priority", "priority", "NAME", "Priority, such as low, medium or high."),
    ("--image", "image", "IMAGE", "Container image of every host."),
    ("--script", "script", "FILE", "A .py or .sh file to run instead of a command."),
    ("--checkpoints", "checkpoints", "FOLDER", "Value of CHECKPOINT_DIR in the program."),
    ("--service-account", "serviceAccount", "NAME", "Service account of the pods."),
    ("--time-to-live", "timeToLive", "TIME", "How long to keep the finished job, such as 24h."),
    ("--deadline", "deadline", "TIME", "Maximum run time of one attempt."),
    ("--estimate", "estimate", "TIME", "Expected run time."),
)
_SLICES = (
    ("--type", "type", "TYPE", "Type of the slices, such as v5p-32 or l4-1."),
    ("--topology", "topology", "AxBxC", "Topology, if the type has several."),
    ("--reservation", "reservation", "NAME", "Use this reservation."),
)
_mount = re.compile(r"(?P<path>/[^=]*)=(?:gs://(?P<bucket>[^/]+)|pvc:(?P<claim>.+)|nfs:(?P<server>[^:]+):(?P<share>/.*))").fullmatch
_secret = re.compile(r"(?:(?P<path>/[^=]*)=(?P<whole>[^/]+)|(?P<env>[^/=]+)=(?P<name>[^/]+)/(?P<key>.+))").fullmatch


class JobCommand(click.Command):
    """A command that takes a program and its arguments after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:place])
        ctx.params["command"] = tuple(args[place + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM [ARGUMENT]...]"]


class FlagDocument(Document):
    """A document whose fields are reported as flags."""

    __slots__ = ()

    def place(self, *path: str | int) -> str:
        """Return the flag of a field or of its closest parent."""
        names = tuple(str(step) for step in path)
        for length in range(len(names), 0, -1):
            if names[:length] in _PLACES:
                return _PLACES[names[:length]]
            if length == 2 and names[0] == "spec":
                return f"--{names[1]}"
        return self.file


def job_flags(command: Command) -> Command:
    """Add all flags that describe a job."""
    options: list[Callable[[Command], Command]] = [_text(*text) for text in (*_TEXTS[:2], *_SLICES[:1])]
    options.append(click.option("--slices", "count", type=click.IntRange(1), help="Number of slices.  [default: 1]"))
    options += [_text(*flag_text) for flag_text in _SLICES[1:]]
    options.append(click.option("--spot", is_flag=True, help="Use Spot capacity, which can be preempted."))
    options += [_text(*flag_text) for flag_text in _TEXTS[2:]]
    options.append(click.option("--restarts", type=click.IntRange(0), help="Maximum number of restarts.  [default: 0]"))
    for flag, metavar, what in (
        ("--env", "NAME=VALUE", "Environment variable; repeatable."),
        ("--env-file", "FILE", "File with one NAME=VALUE per line; a NAME alone takes its local value."),
        ("--secret", "ENV=SECRET/KEY", "Secret key as a variable, or /PATH=SECRET as files; repeatable."),
        ("--mount", "/PATH=SOURCE", "Mount gs://BUCKET, pvc:CLAIM or nfs:SERVER:/SHARE at a path; repeatable."),
        ("--label", "NAME=VALUE", "Label of the job and its pods; repeatable."),
    ):
        options.append(click.option(flag, multiple=True, metavar=metavar, help=what))
    for item in reversed(options):
        command = item(command)
    return command


def _text(flag: str, field: str, metavar: str, what: str) -> Callable[[Command], Command]:
    return click.option(flag, field, metavar=metavar, help=what)


def has_job_flags(flags: Object) -> bool:
    """Whether any flag that describes a job is set."""
    return any(value not in (None, (), False) for value in flags.values())


def build_document(name: str, command: tuple[str, ...], namespace: str, flags: Object) -> FlagDocument:
    """Build the document from flags; it is validated like any other."""
    from sliceworks.specs.common import API_VERSION

    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    if flags["label"]:
        metadata["labels"] = options.parse_pairs("--label", flags["label"])
    spec: Object = {field: flags[field] for _, field, _, _ in _TEXTS if flags[field]}
    spec["slices"] = {field: flags[field] for _, field, _, _ in _SLICES if flags[field]}
    if flags["count"]:
        spec["slices"]["count"] = flags["count"]
    if flags["spot"] and flags["reservation"]:
        raise UsageError("--spot and --reservation cannot be combined")
    if flags["spot"] or flags["reservation"]:
        spec["slices"]["capacity"] = "spot" if flags["spot"] else "reservation"
    if command:
        spec["command"] = list(command)
    if flags["restarts"] is not None:
        spec["restarts"] = {"max": flags["restarts"]}
    if flags["env"] or flags["env_file"]:
        spec["env"] = {**_from_files(flags["env_file"]), **options.parse_pairs("--env", flags["env"])}
    if flags["secret"]:
        spec["secrets"] = [_one_secret(item) for item in flags["secret"]]
    if flags["mount"]:
        spec["volumes"] = [_volume(number, mount) for number, mount in enumerate(flags["mount"])]
    data = {"apiVersion": API_VERSION, "kind": "TrainingJob", "metadata": metadata, "spec": spec}
    return FlagDocument(data, "the flags", 0, {})


def _from_files(files: Iterable[str]) -> dict[str, str]:
    """Read variables like `docker run --env-file`."""
    result = {}
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"--env-file {file}: not valid UTF-8") from error
        for line in text.splitlines():
            name, equals, value = line.strip().partition("=")
            if name and not name.startswith("#"):
                result[name] = value if equals else os.environ.get(name, "")
    return result


def _one_secret(text: str) -> Object:
    match = _secret(text)
    if match is None:
        raise UsageError(f"--secret {text}: expected ENV=SECRET/KEY or /PATH=SECRET")
    if match["path"]:
        return {"secret": match["whole"], "mountPath": match["path"]}
    return {"secret": match["name"], "key": match["key"], "env": match["env"]}


def _volume(number: int, text: str) -> Object:
    match = _mount(text)
    if match is None:
        raise UsageError(f"--mount {text}: expected /PATH=gs://BUCKET, /PATH=pvc:CLAIM or /PATH=nfs:SERVER:/SHARE")
    volume: Object = {"name": f"volume-{number}", "mountPath": match["path"]}
    if match["bucket"]:
        return {**volume, "gcsFuse": {"bucket": match["bucket"]}}
    if match["claim"]:
        return {**volume, "pvc": match["claim"]}
    return {**volume, "nfs": {"server": match["server"], "path": match["share"]}}
