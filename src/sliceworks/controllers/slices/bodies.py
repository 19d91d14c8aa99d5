"""Node pools as the container API takes them, and as it tells of them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from sliceworks.cloud.operations import condition_fault
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.asks import networks
from sliceworks.controllers.slices.shapes import shape_of
from sliceworks.controllers.slices.views import Pool, Ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.controllers.slices.asks import Ask
    from sliceworks.controllers.slices.capacity import Candidate
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.shapes import Shape

Object = dict[str, Any]
_LONGEST_NAME = 40
_KEY_BYTES = 10  # 80 bits: a clash is not to be expected before a billion slices


@lru_cache(maxsize=32_768)
def job_key(job: Ref) -> str:
    """What JobSet writes on a Job's pods as its key."""
    return sha1(f"{job.namespace}/{job.name}".encode()).hexdigest()


@lru_cache(maxsize=32_768)
def pool_name(jobset: str, key: str) -> str:
    """The name of a slice's pool: the same for every try, so that no pool can be made twice."""
    digest = bytes.fromhex(key)[:_KEY_BYTES] if _is_hex(key) else sha1(key.encode()).digest()[:_KEY_BYTES]
    suffix = base64.b32encode(digest).decode().lower()
    prefix = jobset[: _LONGEST_NAME - len(suffix) - 1].rstrip("-.").replace(".", "-")
    return f"{prefix}-{suffix}"


def other_name(jobset: str, key: str, number: int) -> str:
    """The name of a further pool of a slice, where another JobSet's Job sits on the first."""
    return pool_name(jobset, sha1(f"{key} {number}".encode()).hexdigest())


def pool_labels(job: Ref, kind: str, jobset: Ref) -> dict[str, str]:
    """Whose pool it is."""
    return {
        words.MANAGER: words.MANAGER_VALUE,
        words.PARENT_KIND: kind.lower(),
        words.PARENT_NAME: job.name.lower(),
        words.PARENT_NAMESPACE: job.namespace.lower(),
        words.POOL_JOBSET_NAME: jobset.name,
        words.POOL_JOBSET_NAMESPACE: jobset.namespace,
    }


def pool_body(name: str, labels: Mapping[str, str], ask: Ask, candidate: Candidate, settings: Settings) -> Object:
    """The node pool to ask for; UnknownAccelerator or WrongShape where there is none such."""
    shape = shape_of(ask)
    config: Object = {
        "machineType": shape.machine,
        "labels": {**dict(ask.labels), **labels},
        "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": settings.node_secure_boot},
        **_optional(ask, shape, settings),
        **_capacity(ask, candidate),
    }
    body: Object = {
        "name": name,
        "initialNodeCount": shape.nodes,
        "locations": [candidate.zone],
        "config": config,
        "management": {"autoRepair": True, "autoUpgrade": False},
        "upgradeSettings": {"maxSurge": 1},
    }
    if ask.kind != "cpu":
        body["maxPodsConstraint"] = {"maxPodsPerNode": str(settings.max_pods_per_node)}
    if shape.placement is not None:
        policy = settings.workload_policy.replace("{topology}", shape.placement.topology)
        body["placementPolicy"] = shape.placement.policy(policy)
    attached = ask.networks or networks(settings.node_additional_networks)
    if attached:
        configs = [{"network": network, "subnetwork": subnetwork} for network, subnetwork in attached]
        body["networkConfig"] = {"additionalNodeNetworkConfigs": configs}
    return body


def _optional(ask: Ask, shape: Shape, settings: Settings) -> Object:
    disks = [{"diskImage": settings.node_secondary_disk, "mode": "CONTAINER_IMAGE_CACHE"}] if settings.node_secondary_disk else []
    wanted: Object = {
        "serviceAccount": ask.service_account or settings.node_service_account,
        "tags": list(settings.node_tags),
        "secondaryBootDisks": disks,
        "diskType": settings.node_disk_type,
        "bootDiskKmsKey": settings.node_boot_disk_kms_key,
        "enableConfidentialStorage": settings.node_confidential_storage,
        "accelerators": shape.accelerators(settings.gpu_driver),
    }
    return {name: value for name, value in wanted.items() if value}


def _capacity(ask: Ask, candidate: Candidate) -> Object:
    kind = candidate.capacity.kind
    if kind == "reservation":
        values = [candidate.capacity.reservation]
        affinity = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": values,
        }
        return {"reservationAffinity": affinity}
    if kind == "spot":
        # GKE's own provisioning taints spot nodes; a pod that did not expect spot could not come here if we did.
        taints = [{"key": words.SPOT, "value": "true", "effect": "NO_SCHEDULE"}] if ask.spot or ask.tolerates_spot else []
        return {"spot": True, **({"taints": taints} if taints else {})}
    return {}


def read_pool(raw: Mapping[str, Any]) -> Pool:
    """A node pool as the cloud tells of it."""
    config = raw.get("config") or {}
    labels: dict[str, str] = config.get("labels") or {}
    status = str(raw.get("status") or "")
    jobset = labels.get(words.POOL_JOBSET_NAME) or labels.get(words.OLD_POOL_JOBSET_NAME, "")
    failed = status in ("ERROR", "RUNNING_WITH_ERROR")
    return Pool(
        name=str(raw.get("name") or ""),
        status=status,
        ours=labels.get(words.MANAGER) == words.MANAGER_VALUE,
        jobset=Ref(labels.get(words.POOL_JOBSET_NAMESPACE, "default"), jobset),
        job=Ref(labels.get(words.PARENT_NAMESPACE, ""), labels.get(words.PARENT_NAME, "")),
        digest=labels.get(words.POOL_HASH, ""),
        attempt=_int(labels.get(words.ATTEMPT)),
        created=float(_int(labels.get(words.CREATED))),
        zone=next(iter(raw.get("locations") or ()), ""),
        machine=str(config.get("machineType") or ""),
        nodes=_int(raw.get("initialNodeCount")),
        topology=str((raw.get("placementPolicy") or {}).get("tpuTopology") or ""),
        spot=bool(config.get("spot")),
        fault=condition_fault(raw.get("conditions"), str(raw.get("statusMessage") or "")) if failed else None,
    )


def moment(seconds: float) -> datetime:
    """The time of so many seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def _is_hex(text: str) -> bool:
    return len(text) >= 2 * _KEY_BYTES and len(text) % 2 == 0 and all(letter in "0123456789abcdef" for letter in text)


def _int(value: Any) -> int:
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdigit()) else 0
