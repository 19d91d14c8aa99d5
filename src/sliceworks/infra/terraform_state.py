"""The state of a stage: its lock, its backend, and the import of resources that an interrupted run created."""

from __future__ import annotations

import asyncio
import fcntl
import getpass
import re
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock, files
from sliceworks.base.errors import CloudNotFound, SliceworksError
from sliceworks.infra.terraform import BucketMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sliceworks.cloud import Session
    from sliceworks.infra.target import Target
    from sliceworks.infra.terraform import Terraform
    from sliceworks.infra.terraform_messages import StateLock

LOCK_FILE = "stage.lock"
_SLACK = timedelta(seconds=5)


class StageLock:
    """A lock on a stage folder. Terraform inherits `handle`, so the lock is held until Terraform exits."""

    def __init__(self, handle: int, killed_since: str) -> None:
        self.handle = handle
        self.stays_locked = False
        """Whether Terraform could not release the state lock."""
        self._killed_since = killed_since

    def is_own(self, lock: StateLock) -> bool:
        """Whether a killed run of this folder left this state lock."""
        if not self._killed_since or not lock.since or lock.who != f"{getpass.getuser()}@{socket.gethostname()}":
            return False
        return datetime.fromisoformat(f"{lock.since}+00:00") >= datetime.fromisoformat(self._killed_since) - _SLACK


@contextmanager
def lock_stage(folder: Path, stage: str) -> Iterator[StageLock]:
    """Lock a stage on this machine; the file keeps the start time of a run that was killed or left the state locked."""
    with (folder / LOCK_FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SliceworksError(
                f"{stage}: another run on this machine holds the lock", hint="wait until it ends, then try again"
            ) from error
        file.seek(0)
        before = file.read().strip()
        since = before or clock.rfc3339_micro(clock.now())
        _write_start_time(file, since)
        lock = StageLock(file.fileno(), before)
        try:
            yield lock
        finally:
            _write_start_time(file, since if lock.stays_locked else "")


def _write_start_time(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


Object = dict[str, Any]
LOCAL = "beside.tfstate"
"""Not Terraform's default name: Terraform offers to migrate a file of that name on every init."""

ERRORED = "errored.tfstate"
"""Terraform writes the state here when it cannot write to the bucket."""

EDITED = "edited.tfstate"
_BESIDE: Object = {"local": {"path": LOCAL}}
BACKEND = "backend.tf.json"


def open_state(terraform: Terraform, backend: Object, *, may_be_missing: bool) -> None:
    """Initialize a stage with its backend; if the bucket may be missing, fall back to a local state."""
    _rename_old_state(terraform.folder)
    write_backend(terraform.folder, backend)
    try:
        terraform.init()
    except BucketMissing:
        if not may_be_missing:
            raise
        write_backend(terraform.folder, _BESIDE)
        terraform.init()
    else:
        _push_local_states(terraform)


def _rename_old_state(folder: Path) -> None:
    """Rename a local state that an earlier version wrote under Terraform's default name."""
    old = folder / "terraform.tfstate"
    if has_resources(old) and not (folder / LOCAL).exists():
        old.replace(folder / LOCAL)


def pull_state(terraform: Terraform) -> None:
    """Move the state from its bucket to this folder, before the bucket is deleted."""
    text = terraform.pull()
    write_backend(terraform.folder, _BESIDE)
    if text.strip():
        files.write_atomic(terraform.folder / LOCAL, text.encode(), mode=files.PRIVATE_MODE)
    terraform.init()


def push_edited_state(terraform: Terraform, state: Object) -> None:
    """Store a state that was pulled and edited; its serial must be higher than the stored one."""
    file = terraform.folder / EDITED
    files.write_atomic(file, orjson.dumps(state), mode=files.PRIVATE_MODE)
    try:
        terraform.push(file)
    finally:
        file.unlink()


def _push_local_states(terraform: Terraform) -> None:
    """Push local states to the bucket unless the stored state is newer; rename them only after the push."""
    for name in (LOCAL, ERRORED):
        local_state = terraform.folder / name
        if has_resources(local_state):
            terraform.push(local_state)
            local_state.replace(local_state.with_name(f"{name}.moved"))


def is_in_bucket(terraform: Terraform) -> bool:
    """Whether the state of an initialized stage is in the bucket."""
    config = orjson.loads((terraform.folder / BACKEND).read_bytes())
    return "gcs" in config["terraform"]["backend"]


def has_resources(file: Path) -> bool:
    """Whether a state file contains resources."""
    try:
        state = orjson.loads(file.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return False
    return bool(state.get("resources"))


def write_backend(folder: Path, backend: Object) -> None:
    """Write the backend configuration of a stage."""
    write_json(folder / BACKEND, {"terraform": {"backend": backend}})


def write_json(file: Path, data: Object) -> None:
    """Write a JSON file, unless it has this content already."""
    text = orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if not file.exists() or file.read_bytes() != text:
        file.write_bytes(text)


_PAUSE = 1.0
_TRANSITIONAL = ("PROVISIONING", "RECONCILING", "STOPPING")


@dataclass(frozen=True, slots=True)
class ResourceFinder:
    """Finds resources through the APIs of the target."""

    target: Target

    def find_assigned_name(self, kind: str, planned: Object) -> str:
        """The server-generated name of a resource, found by its display name; empty if not found."""
        return asyncio.run(self._find_tensorboard(planned)) if kind == "google_vertex_ai_tensorboard" else ""

    async def _find_tensorboard(self, planned: Object) -> str:
        path = f"/v1/projects/{planned['project']}/locations/{planned['region']}/tensorboards"
        async with self.target.session("aiplatform", f"{planned['region']}-aiplatform") as session:
            response = await session.call("GET", path)
        named = [
            tensorboard
            for tensorboard in response.get("tensorboards") or ()
            if tensorboard.get("displayName") == planned["display_name"]
        ]
        return str(named[0]["name"]) if named else ""

    def wait_for(self, kind: str, planned: Object) -> None:
        """Wait until a cluster or node pool is created, and complete what the interrupted creation left out."""
        if kind == "google_container_cluster":
            asyncio.run(self._cluster(planned))
        elif kind == "google_container_node_pool":
            asyncio.run(self._pool(planned))

    async def _cluster(self, planned: Object) -> None:
        """Delete the default node pool, as the provider does after it created a cluster."""
        path = f"/v1/projects/{planned['project']}/locations/{planned['location']}/clusters/{planned['name']}"
        async with self.target.session("container") as session:
            if await _wait_until_settled(session, path) is None or not planned.get("remove_default_node_pool"):
                return
            first = f"{path}/nodePools/default-pool"
            if await _wait_until_settled(session, first) is not None:
                await session.call("DELETE", first)
                await _wait_until_settled(session, first)

    async def _pool(self, planned: Object) -> None:
        cluster = str(planned["cluster"]).rpartition("/")[2]
        place = f"/v1/projects/{planned['project']}/locations/{planned['location']}"
        async with self.target.session("container") as session:
            await _wait_until_settled(session, f"{place}/clusters/{cluster}/nodePools/{planned['name']}")


async def _wait_until_settled(session: Session, path: str) -> Object | None:
    """The resource once it has no pending operation; None if it does not exist."""
    while True:
        try:
            result = await session.call("GET", path)
        except CloudNotFound:
            return None
        if result.get("status") not in _TRANSITIONAL:
            return result
        await clock.sleep(_PAUSE)


_REGIONAL = "projects/{project}/regions/{region}"

IMPORT_IDS = {
    "google_artifact_registry_repository": "projects/{project}/locations/{location}/repositories/{repository_id}",
    "google_bigquery_dataset": "projects/{project}/datasets/{dataset_id}",
    "google_bigquery_table": "projects/{project}/datasets/{dataset_id}/tables/{table_id}",
    "google_compute_address": f"{_REGIONAL}/addresses/{{name}}",
    "google_compute_firewall": "projects/{project}/global/firewalls/{name}",
    "google_compute_network": "projects/{project}/global/networks/{name}",
    "google_compute_resource_policy": f"{_REGIONAL}/resourcePolicies/{{name}}",
    "google_compute_router": f"{_REGIONAL}/routers/{{name}}",
    "google_compute_subnetwork": f"{_REGIONAL}/subnetworks/{{name}}",
    "google_container_cluster": "projects/{project}/locations/{location}/clusters/{name}",
    "google_container_node_pool": "{project}/{location}/{cluster}/{name}",
    "google_gke_hub_feature": "projects/{project}/locations/{location}/features/{name}",
    "google_gke_hub_membership": "projects/{project}/locations/{location}/memberships/{membership_id}",
    "google_project_iam_custom_role": "projects/{project}/roles/{role_id}",
    "google_pubsub_schema": "projects/{project}/schemas/{name}",
    "google_pubsub_subscription": "projects/{project}/subscriptions/{name}",
    "google_pubsub_topic": "projects/{project}/topics/{name}",
    "google_service_account": "projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com",
    "google_storage_bucket": "{project}/{name}",
}
"""Import ids by resource type: templates over the planned attributes."""

_FIELD = re.compile(r"\{(\w+)\}")


def import_id(kind: str, planned: Object) -> str:
    """The import id of a planned resource; empty if its type has none or an attribute is unknown."""
    template = IMPORT_IDS.get(kind, "")
    parts = {name: planned.get(name) for name in _FIELD.findall(template)}
    if not template or not all(isinstance(part, str) and part for part in parts.values()):
        return ""
    return template.format_map({name: str(part).rpartition("/")[2] for name, part in parts.items()})


def adopt_resources(terraform: Terraform, pending: list[str], report: Callable[[str], None], finder: ResourceFinder) -> list[str]:
    """Import pending resources that exist; returns their addresses."""
    known = set(terraform.resources())
    missing = [address for address in pending if address not in known]
    if not missing:
        return []
    planned = {
        planned_value["address"]: planned_value
        for planned_value in terraform.planned_values()
        if planned_value["address"] in missing
    }
    adopted = []
    for address, change in planned.items():
        values = change["change"].get("after") or {}
        resource_id = import_id(change["type"], values) or finder.find_assigned_name(change["type"], values)
        if resource_id:
            finder.wait_for(change["type"], values)
        if resource_id and terraform.import_resource(address, resource_id):
            report(f"{address}: already exists; imported into the state")
            adopted.append(address)
    return adopted
