"""Settings of the slices controller: file, environment variables (the TPU provisioner's names), flags; the last wins."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import duration
from sliceworks.base.errors import UsageError
from sliceworks.base.names import suggest_name
from sliceworks.controllers.slices.capacity import ON_DEMAND, Capacity, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings; times are in seconds. The metadata of each field names its environment variable."""

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
    unused_grace: float = field(default=300.0, metadata={"env": "SLICES_UNUSED_GRACE"})
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
        """A small number saves Pod IP addresses: an accelerator node runs one workload pod and system pods."""
        return 15


def read(
    environment: Mapping[str, str], file: Mapping[str, Any] | None = None, flags: Mapping[str, Any] | None = None, place: str = ""
) -> Settings:
    """Merge file, environment and flags. Raises UsageError with the name and source of an invalid setting."""
    settings = Settings()
    for name, value in (file or {}).items():
        setting = _snake(name)
        if setting not in _SETTINGS:
            raise UsageError(f"{place or 'settings'}: unknown setting {name!r}", hint=suggest_name(_snake(name), _SETTINGS))
        settings = _with(settings, setting, value, f"{place}: {name}" if place else name)
    for name, variable in _SETTINGS.items():
        if (value := environment.get(variable, "")) != "":
            settings = _with(settings, name, value, variable)
    for name, value in (flags or {}).items():
        if value is not None and value != ():
            settings = _with(settings, name, value, f"--{name.replace('_', '-')}")
    return settings


def _with(settings: Settings, name: str, value: Any, where: str) -> Settings:
    default = getattr(Settings(), name)
    reader = _capacities if name == "capacity" else _READERS[type(default)]
    try:
        change: dict[str, Any] = {name: reader(value)}
        return replace(settings, **change)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}, got {value!r}") from error


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be a string")
    return value.strip()


def _list(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else list(value)
    return tuple(item for part in parts if (item := _string(part)))


def _capacities(value: Any) -> tuple[Capacity, ...]:
    capacities = parse(",".join(_list(value)))
    if not capacities:
        raise ValueError("must have at least one capacity type")
    return capacities


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    # The values of Go's strconv.ParseBool, which the TPU provisioner uses.
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError("must be true or false")


def _seconds(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        seconds = float(value) if is_number else duration.parse(_string(value))
    except ValueError as error:
        raise ValueError("must be a duration such as 90s or 1h30m") from error
    if seconds < 0:
        raise ValueError("must not be negative")
    return seconds


def _count(value: Any) -> int:
    try:
        number = int(value)
    except ValueError as error:
        raise ValueError("must be an integer") from error
    if number < 1:
        raise ValueError("must be at least 1")
    return number


_READERS: dict[type, Callable[[Any], Any]] = {str: _string, tuple: _list, bool: _boolean, float: _seconds, int: _count}
_SETTINGS = {setting.name: str(setting.metadata["env"]) for setting in fields(Settings)}


def variables() -> dict[str, str]:
    """The environment variable of each setting."""
    return dict(_SETTINGS)


def _snake(name: str) -> str:
    return "".join(f"_{character.lower()}" if character.isupper() else character for character in name).lstrip("_")
