"""A container's environment and command line, as its process gets them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.twin.nodes.processes.expansion import expand
from sliceworks.twin.nodes.processes.hosts import hostname
from sliceworks.twin.nodes.processes.sources import amount_of, field_of
from sliceworks.twin.nodes.processes.tpu import tpu_variables

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.nodes.processes.sources import Sources
    from sliceworks.twin.nodes.processes.views import View

Obj = dict[str, Any]
_SCRATCH = "/tmp"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Command:
    """What is to be run."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    view: View


def command_of(
    container: Obj,
    sources: Sources,
    addresses: tuple[str, str],
    home: Path,
    mapped: Callable[[str], str],
    *,
    view: View,
    beside: dict[str, str] | None = None,
    told: dict[str, str] | None = None,
) -> Command:
    """The command of a container with its variables. `mapped` puts addresses for names, and folders for paths nobody mounts;
    `told` is what it knows of Services."""
    given = {**(told or {}), **tpu_variables(sources.pod, container, sources.job)}
    _add_variables(given, container, sources, addresses)
    line = [*(container.get("command") or ()), *(container.get("args") or ())]
    arguments = tuple(mapped(expand(part, given)) for part in line)
    clean = {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), _SYSTEM_PATH)),
        "HOME": str(home),
        # Sockets are made there, whose paths must be short: where the pod has a volume for that, it is used under its own name.
        "TMPDIR": _SCRATCH if any(path == _SCRATCH for _, _, path in view.mounts) else str(home),
        "LANG": "C.UTF-8",
        "HOSTNAME": hostname(sources.pod),
        **(beside or {}),
    }
    return Command(arguments, clean | {name: mapped(value) for name, value in given.items()}, view)


def _add_variables(variables: dict[str, str], container: Obj, sources: Sources, addresses: tuple[str, str]) -> None:
    for each in container.get("envFrom") or ():
        for kind, field in (("configmap", "configMapRef"), ("secret", "secretRef")):
            if field in each:
                found = sources.keys(kind, each[field])
                variables |= {each.get("prefix", "") + key: value.decode(errors="replace") for key, value in found.items()}
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source is None:
            variables[variable["name"]] = expand(variable.get("value") or "", variables)
        elif (value := _taken(source, container, sources, addresses)) is not None:
            variables[variable["name"]] = value


def _taken(source: Obj, container: Obj, sources: Sources, addresses: tuple[str, str]) -> str | None:
    if reference := source.get("fieldRef"):
        return field_of(sources.pod, reference["fieldPath"], addresses)
    if reference := source.get("resourceFieldRef"):
        return amount_of(sources.pod, container, reference)
    for kind, name in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
        if reference := source.get(name):
            value = sources.key(kind, reference)
            return None if value is None else value.decode(errors="replace")
    return None
