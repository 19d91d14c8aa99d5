"""A test that is ready to run: the document, its schedule, its prompts, and whom it asks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest import arrivals, prompts

if TYPE_CHECKING:
    from sliceworks.loadtest.arrivals import Schedule
    from sliceworks.loadtest.prompts import Prompts
    from sliceworks.specs.load_test import LoadTestSpec


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a worker needs. The key shows nowhere."""

    spec: LoadTestSpec
    schedule: Schedule
    prompts: Prompts
    url: str
    key: str = field(default="", repr=False)


def make(spec: LoadTestSpec, folder: Path, *, url: str = "", key: str | None = None, text: bytes | None = None) -> Plan:
    """The plan of a document; `folder` is where its files are, `text` the prompts where they were fetched from elsewhere."""
    found = prompts.load(spec.prompts, spec.seed, folder, text)
    schedule = arrivals.schedule(spec.stages, spec.seed, found.moments)
    if not len(schedule.moments) and not any(phase.users for phase in schedule.phases):
        raise InvalidDocument("no request would be sent: the stages are too short for their rates")
    return Plan(spec, schedule, found, url or spec.target.url, key_of(spec, folder) if key is None else key)


def key_of(spec: LoadTestSpec, folder: Path) -> str:
    """The key that the document points at."""
    secret = spec.target.key
    if secret is None:
        return ""
    if secret.env:
        if secret.env not in os.environ:
            raise InvalidDocument(f"the key is to be in the variable {secret.env}, which is not set", hint=f"export {secret.env}=…")
        return os.environ[secret.env]
    try:
        return (folder / Path(secret.file).expanduser()).read_text().strip()
    except OSError as error:
        raise InvalidDocument(f"cannot read the key: {error.strerror}", place=secret.file) from error
