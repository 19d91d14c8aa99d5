"""The controller's settings: a file, over it the environment (with the Go provisioner's names), over it flags."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import duration
from sliceworks.base.errors import UsageError
from sliceworks.base.words import closest
from sliceworks.controllers.slices.capacity import ON_DEMAND, Capacity, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are seconds. Each field's metadata names its variable in the environment."""

    project: str = field(default="", metadata={"env": "GCP_PROJECT_ID"})
    location: str = field(default="", metadata={"env": "GCP_CLUSTER_LOCATION"})
    cluster: str = field(default="", metadata={"env": "GCP_CLUSTER"})
    zones: tuple[str, ...] = field(default=(), metadata={"env": "GCP_ZONE"})
    node_service_account: str = field(default="", metadata={"env": "GCP_NODE_SERVICE_ACCOUNT"})
    node_tags: tuple[str, ...] = field(default=(), metadata={"env": "GCP_NODE_TAGS"})
    pod_to_node_labels: tuple[str, ...] = field(default=(), metadata={"env": "GCP_POD_TO_NODE_LABELS"})
    node_secondary_disk: str = field(default="", metadata={"env": "GCP_NODE_SECONDARY_DISK"})
    node_additional_networks: str = field(default="", metadata={"env": "GCP_NODE_ADDITIONAL_NETWORKS"})
    node_disk_type: str = field(default="", metadata={"env": "GCP_NODE_DISK_TYPE"})
    node_boot_disk_kms_key: str = field(default="", metadata={"env": "GCP_NODE_BOOT_DISK_KMS_KEY"})
    node_secure_boot: bool = field(default=True, metadata={"env": "GCP_NODE_SECURE_BOOT"})
    node_confidential_storage: bool = field(default=False, metadata={"env": "GCP_NODE_CONFIDENTIAL_STORAGE"})
    force_on_demand: bool = field(default=False, metadata={"env": "GCP_FORCE_ON_DEMAND"})
    node_min_lifespan: float = field(default=10.0, metadata={"env": "NODE_MIN_LIFESPAN"})
    deletion_delay: float = field(default=0.0, metadata={"env": "NODEPOOL_DELETION_DELAY"})
    concurrency: int = field(default=3, metadata={"env": "CONCURRENCY"})

    capacity: tuple[Capacity, ...] = field(default=(ON_DEMAND,), metadata={"env": "SLICES_CAPACITY"})
    suspended_grace: float = field(default=300.0, metadata={"env": "SLICES_SUSPENDED_GRACE"})
    time_limit: float = field(default=1800.0, metadata={"env": "SLICES_TIME_LIMIT"})
    retry_first: float = field(default=30.0, metadata={"env": "SLICES_RETRY_FIRST"})
    retry_cap: float = field(default=600.0, metadata={"env": "SLICES_RETRY_CAP"})
    creation_timeout: float = field(default=3600.0, metadata={"env": "SLICES_CREATION_TIMEOUT"})
    workload_policy: str = field(default="tpu-provisioner-{topology}", metadata={"env": "SLICES_WORKLOAD_POLICY"})
    gpu_driver: str = field(default="default", metadata={"env": "SLICES_GPU_DRIVER"})
    drain: bool = field(default=False, metadata={"env": "SLICES_DRAIN"})
    endpoint: str = field(default="", metadata={"env": "GOOGLE_CONTAINER_CUSTOM_ENDPOINT"})
    token: str = field(default="", metadata={"env": "GOOGLE_OAUTH_ACCESS_TOKEN"})
    impersonate: str = field(default="", metadata={"env": "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"})

    @property
    def max_pods_per_node(self) -> int:
        """Few, so that large clusters do not run out of addresses: an accelerator's node runs one pod and the system's."""
        return 15


def read(
    environment: Mapping[str, str], file: Mapping[str, Any] | None = None, flags: Mapping[str, Any] | None = None, place: str = ""
) -> Settings:
    """The settings of a run. UsageError names the setting that cannot be read, and where it was given."""
    found = Settings()
    for name, value in (file or {}).items():
        known = _BY_NAME.get(_snake(name))
        if known is None:
            raise UsageError(f"{place or 'the settings'}: there is no setting {name!r}", hint=closest(_snake(name), _BY_NAME))
        found = _with(found, known, value, f"{place}: {name}" if place else name)
    for name in _BY_NAME:
        variable = _variable(name)
        if (value := environment.get(variable, "")) != "":
            found = _with(found, name, value, variable)
    for name, value in (flags or {}).items():
        if value is not None and value != ():
            found = _with(found, name, value, f"--{name.replace('_', '-')}")
    return found


def _with(settings: Settings, name: str, value: Any, where: str) -> Settings:
    default = getattr(Settings(), name)
    reader = _capacities if name == "capacity" else _READERS[type(default)]
    try:
        change: dict[str, Any] = {name: reader(value)}
        return replace(settings, **change)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {value!r} cannot be used: {error}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is wanted")
    return value.strip()


def _list(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else list(value)
    return tuple(text for part in parts if (text := _text(part)))


def _capacities(value: Any) -> tuple[Capacity, ...]:
    found = parse(",".join(_list(value)))
    if not found:
        raise ValueError("at least one kind of capacity is wanted")
    return found


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    # What Go's strconv.ParseBool takes: the old settings were read by it.
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError("true or false is wanted")


def _seconds(value: Any) -> float:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    seconds = float(value) if plain else duration.parse(_text(value))
    if seconds < 0:
        raise ValueError("it is less than nothing")
    return seconds


def _count(value: Any) -> int:
    number = int(value)
    if number < 1:
        raise ValueError("at least 1 is wanted")
    return number


_READERS: dict[type, Callable[[Any], Any]] = {str: _text, tuple: _list, bool: _truth, float: _seconds, int: _count}
_BY_NAME = {each.name: each.name for each in fields(Settings)}
_ENVIRONMENT = {each.name: str(each.metadata["env"]) for each in fields(Settings)}


def _variable(name: str) -> str:
    return _ENVIRONMENT[name]


def variables() -> dict[str, str]:
    """Every setting and its variable in the environment."""
    return dict(_ENVIRONMENT)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
