"""Preflight on a project: what Google Cloud says about it before anything is created. It only reads.

`env check --live` prints each missing resource with the command that provides it. The twin's cloud answers the same requests.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudNotFound, PermissionDenied
from sliceworks.infra.pools import compile_pool
from sliceworks.infra.preflight import Finding
from sliceworks.infra.stages import Names, required_services

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sliceworks.cloud import Session
    from sliceworks.infra.target import Target
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
_BEFORE_BOOTSTRAP = ("cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com")
"""Services that must be enabled before the bootstrap stage, which enables the others."""
_BOOTSTRAP_ROLES = {
    "iam.serviceAccounts.create": "roles/iam.serviceAccountAdmin",
    "iam.serviceAccounts.setIamPolicy": "roles/iam.serviceAccountAdmin",
    "resourcemanager.projects.getIamPolicy": "roles/resourcemanager.projectIamAdmin",
    "resourcemanager.projects.setIamPolicy": "roles/resourcemanager.projectIamAdmin",
    "serviceusage.services.enable": "roles/serviceusage.serviceUsageAdmin",
    "storage.buckets.create": "roles/storage.admin",
}
"""Permissions of the user who applies the bootstrap stage, each with a role that has it."""
_HOST_ROLE = "roles/container.hostServiceAgentUser"
_DISABLED = "SERVICE_DISABLED"
_IMPERSONATION = "iam.serviceAccounts.getAccessToken"
_OLDER_APIS = frozenset({"compute", "storage"})
"""APIs whose paths begin with their name."""
_PROJECT = ("spec", "project")


@dataclass(frozen=True, slots=True)
class _Probe:
    """One environment and its project."""

    environment: Environment
    target: Target

    async def get(self, service: str, path: str) -> Object:
        """Read a resource; raises CloudError."""
        async with self._session(service) as session:
            return await session.call("GET", path)

    async def list_all(self, service: str, path: str, field: str, query: Mapping[str, str]) -> list[Object]:
        """All items of a collection."""
        async with self._session(service) as session:
            return [item async for page in session.pages(path, query) for item in page.get(field) or ()]

    async def find(self, service: str, path: str) -> Object | None:
        """Read a resource; None if it does not exist."""
        try:
            return await self.get(service, path)
        except CloudNotFound:
            return None

    async def test_permissions(self, service: str, path: str, permissions: list[str]) -> set[str]:
        """The permissions that the caller has on a resource."""
        async with self._session(service) as session:
            answer = await session.call("POST", f"{path}:testIamPermissions", {"permissions": permissions})
            return set(answer.get("permissions") or ())

    async def find_members(self, project: str, role: str) -> set[str]:
        """The members of a role in the policy of a project."""
        async with self._session("cloudresourcemanager") as session:
            policy = await session.call("POST", f"/v1/projects/{project}:getIamPolicy", {})
        bindings = (binding for binding in policy.get("bindings") or () if binding.get("role") == role)
        return {member for binding in bindings for member in binding.get("members") or ()}

    @asynccontextmanager
    async def _session(self, service: str) -> AsyncIterator[Session]:
        """A session; the error of a service that is not enabled says how to enable it."""
        async with self.target.root(service) if service in _OLDER_APIS else self.target.session(service) as session:
            try:
                yield session
            except PermissionDenied as error:
                if _DISABLED in error.reasons:
                    error.hint = _enable(self.environment, f"{service}.googleapis.com")
                raise


def check_live(environment: Environment, target: Target) -> list[Finding]:
    """What the project lacks. A check that may not read is a finding, too; raises CloudError if Google cannot be reached."""

    async def run() -> list[Finding]:
        probe = _Probe(environment, target)
        findings: list[Finding] = []
        for name, check in LIVE_CHECKS.items():
            try:
                findings += [replace(finding, check=name) async for finding in check(probe)]
            except (PermissionDenied, CloudNotFound) as error:
                hint = error.hint or _grant(environment, "roles/viewer")
                findings.append(Finding(_PROJECT, f"cannot be checked: {error.message}", hint, name))
        return findings

    return asyncio.run(run())


def _grant(environment: Environment, role: str, member: str = "user:YOU") -> str:
    return f"gcloud projects add-iam-policy-binding {environment.spec.project} --member={member} --role={role}"


def _enable(environment: Environment, *services: str) -> str:
    return f"gcloud services enable {' '.join(services)} --project={environment.spec.project}"


async def _check_services(probe: _Probe) -> AsyncIterator[Finding]:
    """Services are enabled; the bootstrap stage enables most of them itself."""
    spec = probe.environment.spec
    query = {"filter": "state:ENABLED", "pageSize": "200"}
    services = await probe.list_all("serviceusage", f"/v1/projects/{spec.project}/services", "services", query)
    enabled = {str(service["config"]["name"]) for service in services}
    needed = _BEFORE_BOOTSTRAP if spec.automation.create else required_services(spec)
    missing = [name for name in needed if name not in enabled]
    if missing:
        problem = f"services are not enabled: {', '.join(missing)}"
        yield Finding(_PROJECT, problem, _enable(probe.environment, *missing))


async def _check_permissions(probe: _Probe) -> AsyncIterator[Finding]:
    """The user may apply the bootstrap stage, or act as the existing automation account."""
    spec, names = probe.environment.spec, Names(probe.environment)
    if not spec.automation.create:
        path = f"/v1/projects/{spec.project}/serviceAccounts/{names.automation_account}"
        if _IMPERSONATION not in await probe.test_permissions("iam", path, [_IMPERSONATION]):
            role = "roles/iam.serviceAccountTokenCreator"
            command = (
                f"gcloud iam service-accounts add-iam-policy-binding {names.automation_account} "
                f"--project={spec.project} --member=user:YOU --role={role}"
            )
            problem = f"you may not act as {names.automation_account}: {_IMPERSONATION} is missing"
            yield Finding(("spec", "automation", "serviceAccount"), problem, command)
        return
    granted = await probe.test_permissions("cloudresourcemanager", f"/v1/projects/{spec.project}", list(_BOOTSTRAP_ROLES))
    missing: dict[str, list[str]] = {}
    for permission, role in _BOOTSTRAP_ROLES.items():
        if permission not in granted:
            missing.setdefault(role, []).append(permission)
    for role, permissions in missing.items():
        problem = f"you lack {' and '.join(permissions)}"
        yield Finding(_PROJECT, problem, _grant(probe.environment, role))


async def _check_machine_types(probe: _Probe) -> AsyncIterator[Finding]:
    """Every zone of a pool offers its machine type."""
    spec = probe.environment.spec
    for kind, name, machine, zones in _machines(probe.environment):
        for zone in zones:
            path = f"/compute/v1/projects/{spec.project}/zones/{zone}"
            if await probe.find("compute", f"{path}/machineTypes/{machine}") is None:
                command = f"gcloud compute machine-types list --project={spec.project} --filter='name={machine}'"
                yield Finding(("spec", "pools", kind, name), f"{zone} does not offer {machine}", command)


def _machines(environment: Environment) -> list[tuple[str, str, str, list[str]]]:
    """Kind, name, machine type and zones of every pool."""
    machines = []
    for kind, name, pool in environment.spec.pools.entries():
        compiled = next(iter(compile_pool(environment.spec, name, pool).values()), None)
        if compiled is not None:
            machines.append((kind, name, str(compiled["machine_type"]), list(compiled["zones"] or ())))
    return machines


async def _check_version(probe: _Probe) -> AsyncIterator[Finding]:
    """GKE offers the version of the cluster."""
    spec, names = probe.environment.spec, Names(probe.environment)
    version = spec.cluster.version
    if not version:
        return
    answer = await probe.get("container", f"/v1/projects/{spec.project}/locations/{names.location}/serverConfig")
    offered = [str(item) for item in answer.get("validMasterVersions") or ()]
    if not any(item == version or item.startswith((f"{version}.", f"{version}-")) for item in offered):
        problem = f"GKE does not offer version {version} in {names.location}"
        yield Finding(("spec", "cluster", "version"), problem, f"versions: {', '.join(offered[:5])}")


async def _check_network(probe: _Probe) -> AsyncIterator[Finding]:
    """The existing network, its subnet and its secondary ranges exist, and GKE may use a Shared VPC."""
    spec = probe.environment.spec
    existing = spec.network.existing
    if existing is None:
        return
    field, host = ("spec", "network", "existing"), existing.host_project or spec.project
    if await probe.find("compute", f"/compute/v1/projects/{host}/global/networks/{existing.network}") is None:
        command = f"gcloud compute networks create {existing.network} --project={host} --subnet-mode=custom"
        yield Finding((*field, "network"), f"network {existing.network} not found in project {host}", command)
    path = f"/compute/v1/projects/{host}/regions/{spec.region}/subnetworks/{existing.subnet}"
    subnet = await probe.find("compute", path)
    if subnet is None:
        command = f"gcloud compute networks subnets list --project={host} --regions={spec.region}"
        yield Finding((*field, "subnet"), f"subnet {existing.subnet} not found in {spec.region} of project {host}", command)
        return
    ranges = {item.get("rangeName") for item in subnet.get("secondaryIpRanges") or ()}
    for key, name in (("podsRange", existing.pods_range), ("servicesRange", existing.services_range)):
        if name not in ranges:
            command = (
                f"gcloud compute networks subnets update {existing.subnet} --project={host} --region={spec.region} "
                f"--add-secondary-ranges={name}=RANGE"
            )
            yield Finding((*field, key), f"subnet {existing.subnet} has no secondary range {name}", command)
    if host != spec.project:
        number = (await probe.get("cloudresourcemanager", f"/v1/projects/{spec.project}")).get("projectNumber")
        agent = f"serviceAccount:service-{number}@container-engine-robot.iam.gserviceaccount.com"
        if agent not in await probe.find_members(host, _HOST_ROLE):
            command = f"gcloud projects add-iam-policy-binding {host} --member={agent} --role={_HOST_ROLE}"
            problem = f"GKE's service agent lacks {_HOST_ROLE} in the host project {host}"
            yield Finding((*field, "hostProject"), problem, command)


async def _check_accounts(probe: _Probe) -> AsyncIterator[Finding]:
    """Existing service accounts and the existing automation bucket exist."""
    spec, names = probe.environment.spec, Names(probe.environment)
    accounts: dict[tuple[str, ...], str] = {}
    if spec.identities.nodes.existing:
        accounts["spec", "identities", "nodes", "existing"] = spec.identities.nodes.existing
    if not spec.automation.create:
        accounts["spec", "automation", "serviceAccount"] = names.automation_account
        bucket = spec.automation.bucket
        if await probe.find("storage", f"/storage/v1/b/{bucket}") is None:
            command = f"gcloud storage buckets create gs://{bucket} --project={spec.project} --location={spec.region}"
            yield Finding(("spec", "automation", "bucket"), f"bucket {bucket} not found", command)
    for field, email in accounts.items():
        if await probe.find("iam", f"/v1/projects/-/serviceAccounts/{email}") is None:
            name, _, domain = email.partition("@")
            command = f"gcloud iam service-accounts create {name} --project={domain.partition('.')[0]}"
            yield Finding(field, f"service account {email} not found", command)


async def _check_reservations(probe: _Probe) -> AsyncIterator[Finding]:
    """Reservations of pools exist, and are for their machine type."""
    spec = probe.environment.spec
    machines = {(kind, name): (machine, zones) for kind, name, machine, zones in _machines(probe.environment)}
    for kind, name, pool in spec.pools.entries():
        if pool.reservation is None or (kind, name) not in machines:
            continue
        machine, zones = machines[kind, name]
        project, field = pool.reservation.project or spec.project, ("spec", "pools", kind, name, "reservation")
        for zone in zones:
            path = f"/compute/v1/projects/{project}/zones/{zone}/reservations/{pool.reservation.name}"
            reservation = await probe.find("compute", path)
            reserved = (((reservation or {}).get("specificReservation") or {}).get("instanceProperties") or {}).get("machineType")
            if reservation is None:
                command = f"gcloud compute reservations list --project={project} --filter='zone:{zone}'"
                yield Finding(field, f"reservation {pool.reservation.name} not found in {zone}", command)
            elif reserved and reserved != machine:
                problem = f"reservation {pool.reservation.name} is for {reserved}, the pool needs {machine}"
                yield Finding(field, problem, "choose another reservation")


LIVE_CHECKS: dict[str, Callable[[_Probe], AsyncIterator[Finding]]] = {
    "services": _check_services,
    "permissions": _check_permissions,
    "machine-types": _check_machine_types,
    "versions": _check_version,
    "networks": _check_network,
    "accounts": _check_accounts,
    "reservations": _check_reservations,
}
