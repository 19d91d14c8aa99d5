"""A TrainingJob in one line: flags that make the same document as a file would, with errors that name the flag."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import UsageError
from sliceworks.base.yamls import Document
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
# The name of each option, where it goes in the document, and what it says.
_TEXTS = (
    ("--queue", "queue", "NAME", "The team's queue."),
    ("--priority", "priority", "NAME", "Such as low, medium or high."),
    ("--image", "image", "IMAGE", "The image that every host runs."),
    ("--script", "script", "FILE", "A .py or .sh file that is run in place of a command."),
    ("--checkpoints", "checkpoints", "FOLDER", "What the program finds in CHECKPOINT_DIR."),
    ("--service-account", "serviceAccount", "NAME", "The service account of its pods."),
    ("--time-to-live", "timeToLive", "TIME", "How long the finished job is kept, such as 24h."),
    ("--deadline", "deadline", "TIME", "The longest that one attempt may run."),
    ("--estimate", "estimate", "TIME", "How long it is expected to run."),
)
_SLICES = (
    ("--type", "type", "TYPE", "What a slice is, such as v5p-32 or l4-1."),
    ("--topology", "topology", "AxBxC", "Where a type has several."),
    ("--reservation", "reservation", "NAME", "Take the slices from this reservation."),
)
_mount = re.compile(r"(?P<path>/[^=]*)=(?:gs://(?P<bucket>[^/]+)|pvc:(?P<claim>.+)|nfs:(?P<server>[^:]+):(?P<share>/.*))").fullmatch
_secret = re.compile(r"(?:(?P<path>/[^=]*)=(?P<whole>[^/]+)|(?P<env>[^/=]+)=(?P<name>[^/]+)/(?P<key>.+))").fullmatch


class JobCommand(click.Command):
    """A command that ends with a program: everything after `--`, and nothing else, is the program and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:place])
        ctx.params["command"] = tuple(args[place + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM [ARGUMENT]...]"]


class FlagDocument(Document):
    """A document whose places are flags."""

    __slots__ = ()

    def place(self, *path: str | int) -> str:
        """The flag that says a field, or that says what it lies in."""
        names = tuple(str(step) for step in path)
        for length in range(len(names), 0, -1):
            if names[:length] in _PLACES:
                return _PLACES[names[:length]]
            if length == 2 and names[0] == "spec":
                return f"--{names[1]}"
        return self.file


def job_flags(command: Command) -> Command:
    """Every flag that says a part of a job."""
    made: list[Callable[[Command], Command]] = [_text(*each) for each in (*_TEXTS[:2], *_SLICES[:1])]
    made.append(click.option("--slices", "count", type=click.IntRange(1), help="How many slices work as one.  [default: 1]"))
    made += [_text(*each) for each in _SLICES[1:]]
    made.append(click.option("--spot", is_flag=True, help="Cheap machines that may be taken away."))
    made += [_text(*each) for each in _TEXTS[2:]]
    made.append(click.option("--restarts", type=click.IntRange(0), help="How often everything starts again.  [default: 0]"))
    for flag, metavar, what in (
        ("--env", "NAME=VALUE", "A variable of the program; may be said again."),
        ("--env-file", "FILE", "Variables, one NAME=VALUE a line; a NAME alone has the value that it has here."),
        ("--secret", "ENV=SECRET/KEY", "A key of a Secret as a variable, or /PATH=SECRET as files; may be said again."),
        ("--mount", "/PATH=SOURCE", "gs://BUCKET, pvc:CLAIM or nfs:SERVER:/SHARE at a path; may be said again."),
        ("--label", "NAME=VALUE", "A label of the job and its pods; may be said again."),
    ):
        made.append(click.option(flag, multiple=True, metavar=metavar, help=what))
    for each in reversed(made):
        command = each(command)
    return command


def _text(flag: str, field: str, metavar: str, what: str) -> Callable[[Command], Command]:
    return click.option(flag, field, metavar=metavar, help=what)


def said(flags: Object) -> bool:
    """Whether any flag says a part of a job."""
    return any(value not in (None, (), False) for value in flags.values())


def document(name: str, command: tuple[str, ...], namespace: str, flags: Object) -> FlagDocument:
    """The document that flags write. What is missing or wrong in it is found as in any other."""
    from sliceworks.specs.model import API_VERSION

    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    if flags["label"]:
        metadata["labels"] = options.pairs("--label", flags["label"])
    spec: Object = {field: flags[field] for _, field, _, _ in _TEXTS if flags[field]}
    spec["slices"] = {field: flags[field] for _, field, _, _ in _SLICES if flags[field]}
    if flags["count"]:
        spec["slices"]["count"] = flags["count"]
    if flags["spot"] and flags["reservation"]:
        raise UsageError("--spot and --reservation: slices are of one or the other")
    if flags["spot"] or flags["reservation"]:
        spec["slices"]["capacity"] = "spot" if flags["spot"] else "reservation"
    if command:
        spec["command"] = list(command)
    if flags["restarts"] is not None:
        spec["restarts"] = {"max": flags["restarts"]}
    if flags["env"] or flags["env_file"]:
        spec["env"] = {**_from_files(flags["env_file"]), **options.pairs("--env", flags["env"])}
    if flags["secret"]:
        spec["secrets"] = [_one_secret(each) for each in flags["secret"]]
    if flags["mount"]:
        spec["volumes"] = [_volume(number, each) for number, each in enumerate(flags["mount"])]
    data = {"apiVersion": API_VERSION, "kind": "TrainingJob", "metadata": metadata, "spec": spec}
    return FlagDocument(data, "the flags", 0, {})


def _from_files(files: Iterable[str]) -> dict[str, str]:
    """Variables as `docker run --env-file` reads them."""
    found = {}
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"--env-file {file}: is not UTF-8 text") from error
        for line in text.splitlines():
            name, equals, value = line.strip().partition("=")
            if name and not name.startswith("#"):
                found[name] = value if equals else os.environ.get(name, "")
    return found


def _one_secret(text: str) -> Object:
    found = _secret(text)
    if found is None:
        raise UsageError(f"--secret {text}: ENV=SECRET/KEY or /PATH=SECRET is wanted")
    if found["path"]:
        return {"secret": found["whole"], "mountPath": found["path"]}
    return {"secret": found["name"], "key": found["key"], "env": found["env"]}


def _volume(number: int, text: str) -> Object:
    found = _mount(text)
    if found is None:
        raise UsageError(f"--mount {text}: /PATH=gs://BUCKET, /PATH=pvc:CLAIM or /PATH=nfs:SERVER:/SHARE is wanted")
    volume: Object = {"name": f"volume-{number}", "mountPath": found["path"]}
    if found["bucket"]:
        return {**volume, "gcsFuse": {"bucket": found["bucket"]}}
    if found["claim"]:
        return {**volume, "pvc": found["claim"]}
    return {**volume, "nfs": {"server": found["server"], "path": found["share"]}}
