"""A container's command line and environment: expansion, Service variables, TPU variables."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.twin.nodes.runtime.image import MACHINE
from sliceworks.twin.nodes.runtime.pod_dns import hostname
from sliceworks.twin.nodes.runtime.value_sources import read_field, read_resource_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.nodes.runtime.image import Image
    from sliceworks.twin.nodes.runtime.process import MountView
    from sliceworks.twin.nodes.runtime.value_sources import Sources
_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")


def expand(template: str, variables: Mapping[str, str]) -> str:
    """Expand `$(NAME)` references; unknown ones stay, and `$$` is `$`."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[1] == "$" else variables.get(match[2], match[0])

    return _REFERENCE.sub(value, template) if "$" in template else template


Obj = dict[str, Any]
API_SERVICE = ("default", "kubernetes")


def service_variables(pod: Obj, services: Iterable[Obj], api: tuple[str, int] | None) -> dict[str, str]:
    """The environment variables of Services in the pod's namespace, and of the API server.

    `api` is the real address of the API server, because only root may listen on the port of its Service.
    """
    namespace, has_links = pod["metadata"]["namespace"], pod["spec"].get("enableServiceLinks", True)
    selected: dict[str, Obj] = {}
    for service in services:
        key = (service["metadata"]["namespace"], service["metadata"]["name"])
        if service["spec"].get("clusterIP") in (None, "", "None"):
            continue
        if key == API_SERVICE:
            if api is not None:
                selected.setdefault(key[1], _with_address(service, *api))
        elif key[0] == namespace and has_links:
            selected[key[1]] = service
    return {name: value for service in selected.values() for name, value in _variables_of(service).items()}


def _with_address(service: Obj, address: str, port: int) -> Obj:
    return {**service, "spec": {"clusterIP": address, "ports": [{**service["spec"]["ports"][0], "port": port}]}}


def _variables_of(service: Obj) -> dict[str, str]:
    spec, prefix = service["spec"], _variable_name(service["metadata"]["name"])
    address, first = spec["clusterIP"], spec["ports"][0]
    variables = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(first["port"])}
    variables |= {
        f"{prefix}_SERVICE_PORT_{_variable_name(port['name'])}": str(port["port"]) for port in spec["ports"] if port.get("name")
    }
    variables[f"{prefix}_PORT"] = _url(address, first)
    for port in spec["ports"]:
        protocol = port.get("protocol") or "TCP"
        name = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        variables |= {
            name: _url(address, port),
            f"{name}_PROTO": protocol.lower(),
            f"{name}_PORT": str(port["port"]),
            f"{name}_ADDR": address,
        }
    return variables


def _url(address: str, port: Obj) -> str:
    return f"{(port.get('protocol') or 'TCP').lower()}://{address}:{port['port']}"


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()


_TPU_RESOURCE = "google.com/tpu"
MEGASCALE_PORT = "8080"
_ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
_TOPOLOGY = "cloud.google.com/gke-tpu-topology"
_INDEX = "batch.kubernetes.io/job-completion-index"
_SLICES = ("jobset.sigs.k8s.io/global-replicas", "jobset.sigs.k8s.io/replicatedjob-replicas")
_SLICE = ("jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-index")

# Accelerator types count chips, or cores for generations with two cores per chip.
_ACCELERATOR_TYPES = {
    "tpu-v4-podslice": ("v4", 2),
    "tpu-v5-lite-podslice": ("v5litepod", 1),
    "tpu-v5-lite-device": ("v5litepod", 1),
    "tpu-v5p-slice": ("v5p", 2),
    "tpu-v6e-slice": ("v6e", 1),
    "tpu7x": ("tpu7x", 2),
}


def requests_tpu(container: Obj) -> bool:
    """Whether a container requests TPU chips."""
    resources = container.get("resources") or {}
    return any(_TPU_RESOURCE in (resources.get(part) or {}) for part in ("limits", "requests"))


def tpu_variables(pod: Obj, container: Obj, job: Obj | None) -> dict[str, str]:
    """The environment variables that GKE sets for containers that request TPU chips."""
    if not requests_tpu(container):
        return {}
    metadata, spec = pod["metadata"], pod["spec"]
    attributes = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    subdomain, hosts = spec.get("subdomain") or "", _hosts(job)
    variables = {"TPU_WORKER_ID": attributes.get(_INDEX, "0"), "TPU_WORKER_HOSTNAMES": "localhost", "TPU_SKIP_MDS_QUERY": "true"}
    if job is not None and subdomain and _INDEX in attributes:
        name = job["metadata"]["name"]
        variables["TPU_WORKER_HOSTNAMES"] = ",".join(f"{name}-{index}.{subdomain}" for index in range(hosts))
    elif subdomain:
        variables["TPU_WORKER_HOSTNAMES"] = f"{hostname(pod)}.{subdomain}"
    selector = spec.get("nodeSelector") or {}
    if topology := selector.get(_TOPOLOGY):
        variables["TPU_TOPOLOGY"] = topology
        sides, accelerator = topology.split("x"), _ACCELERATOR_TYPES.get(selector.get(_ACCELERATOR, ""))
        if accelerator and all(map(str.isdecimal, sides)):
            chips = prod(map(int, sides))
            variables["TPU_ACCELERATOR_TYPE"] = f"{accelerator[0]}-{chips * accelerator[1]}"
    return {**variables, **_megascale_variables(attributes, subdomain)}


def _hosts(job: Obj | None) -> int:
    spec = (job or {}).get("spec") or {}
    return int(spec.get("completions") or spec.get("parallelism") or 1)


def _megascale_variables(attributes: dict[str, str], subdomain: str) -> dict[str, str]:
    """The environment variables of multislice jobs."""
    slices = next((attributes[name] for name in _SLICES if name in attributes), "1")
    name, replicated = (attributes.get(f"jobset.sigs.k8s.io/{key}") for key in ("jobset-name", "replicatedjob-name"))
    if not slices.isdecimal() or int(slices) < 2 or name is None or replicated is None:
        return {}
    return {
        "MEGASCALE_NUM_SLICES": slices,
        "MEGASCALE_SLICE_ID": next((attributes[label] for label in _SLICE if label in attributes), "0"),
        "MEGASCALE_COORDINATOR_ADDRESS": f"{name}-{replicated}-0-0.{subdomain or name}",
        "MEGASCALE_PORT": MEGASCALE_PORT,
    }


_TMP = "/tmp"
MARKER = "SLICEWORKS_CONTAINER"
"""Names the container in the environment of its processes, so that those in another session are found too."""
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Command:
    """A command line with its environment and file system."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    view: MountView
    replace_names: Callable[[str], str] = str
    """Replaces names of pods, and mount paths without mount namespaces, in arguments."""
    stdin: bool = False
    tty: bool = False

    def inside(self, pid: int) -> Command:
        """This command in the file system of a running process."""
        return replace(self, view=self.view.inside(pid))

    def with_arguments(self, words: Iterable[str]) -> Command:
        """Another command in the same environment."""
        return replace(self, arguments=tuple(map(self.replace_names, words)), stdin=False, tty=False)


def build_command(
    container: Obj,
    sources: Sources,
    addresses: tuple[str, str],
    home: Path,
    replace_names: Callable[[str], str],
    *,
    image: Image = MACHINE,
    view: MountView,
    api_variables: dict[str, str] | None = None,
    service_variables: dict[str, str] | None = None,
) -> Command:
    """Build the command of a container. `replace_names` also replaces mount paths without mount namespaces."""
    variables = {**image.env, **(service_variables or {}), **tpu_variables(sources.pod, container, sources.job)}
    add_variables(variables, container, sources, addresses)
    arguments = tuple(replace_names(expand(word, variables)) for word in image.words(container))
    environment = {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), _SYSTEM_PATH)),
        "HOME": str(home),
        "TMPDIR": _temporary_folder(view, home),
        "LANG": "C.UTF-8",
        "HOSTNAME": hostname(sources.pod),
        MARKER: f"{sources.pod['metadata'].get('uid', '')}/{container['name']}",
        **(api_variables or {}),
    }
    environment |= {name: replace_names(value) for name, value in variables.items()}
    is_interactive = {"stdin": bool(container.get("stdin")), "tty": bool(container.get("tty"))}
    return Command(arguments, environment, view, replace_names, **is_interactive)


def _temporary_folder(view: MountView, home: Path) -> str:
    """/tmp if the pod mounts a volume there or below it.

    Paths of sockets must be short, and programs look in their folder for temporary files for what is mounted.
    """
    is_mounted = any(mode != "keep" and f"{path}/".startswith(f"{_TMP}/") for mode, _, path in view.mounts)
    return _TMP if is_mounted else str(home)


def add_variables(variables: dict[str, str], container: Obj, sources: Sources, addresses: tuple[str, str]) -> None:
    """Add the variables of `env` and `envFrom`; values may refer to those that exist."""
    for source in container.get("envFrom") or ():
        for kind, field in (("configmap", "configMapRef"), ("secret", "secretRef")):
            if field in source:
                data = sources.keys(kind, source[field])
                prefix = source.get("prefix", "")
                variables |= {prefix + key: value.decode(errors="replace") for key, value in data.items()}
    for variable in container.get("env") or ():
        value_from = variable.get("valueFrom")
        if value_from is None:
            variables[variable["name"]] = expand(variable.get("value") or "", variables)
        elif (value := _resolve(value_from, container, sources, addresses)) is not None:
            variables[variable["name"]] = value


def _resolve(source: Obj, container: Obj, sources: Sources, addresses: tuple[str, str]) -> str | None:
    if reference := source.get("fieldRef"):
        return read_field(sources.pod, reference["fieldPath"], addresses)
    if reference := source.get("resourceFieldRef"):
        return read_resource_field(sources.pod, container, reference, sources.allocatable)
    for kind, name in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
        if reference := source.get(name):
            value = sources.key(kind, reference)
            return None if value is None else value.decode(errors="replace")
    return None
