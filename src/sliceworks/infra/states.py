"""Where the state of a stage lies: in the bucket, and beside the stage's files only for as long as there is no bucket.

The first stage makes the bucket, so its state begins here, goes up into the bucket as soon as that is there, and comes back
down before the bucket is removed with everything in it. Whatever lies here and is not empty is newer than what is in the bucket:
a run that was stopped on the way goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import files
from sliceworks.infra.terraform import NoBucket

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.infra.terraform import Terraform

Object = dict[str, Any]
LOCAL = "beside.tfstate"
"""Not the name that Terraform gives: about a file of that name it asks whenever a stage goes to its bucket."""
ERRORED = "errored.tfstate"
"""Where Terraform leaves a state that it could not write to the bucket."""
_BESIDE: Object = {"local": {"path": LOCAL}}
_BACKEND = "backend.tf.json"


def open_state(terraform: Terraform, backend: Object, *, may_be_missing: bool) -> None:
    """Get a stage ready to work with its state. Without a bucket that is here, if it may."""
    _renamed(terraform.folder)
    write_backend(terraform.folder, backend)
    try:
        terraform.init()
    except NoBucket:
        if not may_be_missing:
            raise
        write_backend(terraform.folder, _BESIDE)
        terraform.init()
    else:
        _up(terraform)


def _renamed(folder: Path) -> None:
    """A state that an earlier version of ours has left here under Terraform's own name."""
    old = folder / "terraform.tfstate"
    if holds_something(old) and not (folder / LOCAL).exists():
        old.replace(folder / LOCAL)


def bring_down(terraform: Terraform) -> None:
    """Have the state here, before the bucket that it lies in is removed."""
    text = terraform.pull()
    write_backend(terraform.folder, _BESIDE)
    if text.strip():
        files.put(terraform.folder / LOCAL, text.encode(), mode=files.PRIVATE)
    terraform.init()


def _up(terraform: Terraform) -> None:
    """Bring what lies here into the bucket, unless that is newer. It is put aside here only once it is there."""
    for name in (LOCAL, ERRORED):
        here = terraform.folder / name
        if holds_something(here):
            terraform.push(here)
            here.replace(here.with_name(f"{name}.moved"))


def in_bucket(terraform: Terraform) -> bool:
    """Whether a stage that was opened has its state in the bucket."""
    found = orjson.loads((terraform.folder / _BACKEND).read_bytes())
    return "gcs" in found["terraform"]["backend"]


def holds_something(file: Path) -> bool:
    """Whether a state has resources in it."""
    try:
        found = orjson.loads(file.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return False
    return bool(found.get("resources"))


def write_backend(folder: Path, backend: Object) -> None:
    """Tell Terraform where the state is."""
    text = orjson.dumps({"terraform": {"backend": backend}}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    file = folder / _BACKEND
    if not file.exists() or file.read_bytes() != text:
        file.write_bytes(text)
