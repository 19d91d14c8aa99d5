"""Where an Environment is created: Google Cloud or a twin; its APIs, its Terraform provider, its cluster."""

from __future__ import annotations

import asyncio
import atexit
import base64
import os
import platform
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from sliceworks.base import imports
from sliceworks.base.errors import CloudNotFound, PermissionDenied, SliceworksError
from sliceworks.cloud import Session, Token
from sliceworks.cloud.credentials import find_credentials
from sliceworks.infra.provider import REATTACH
from sliceworks.infra.provider.schema import google_schema
from sliceworks.kube.client import Client
from sliceworks.kube.connection import Connection
from sliceworks.kube.https import HttpsTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sliceworks.cloud.credentials import Credentials
    from sliceworks.kube.connection import Certificate

REATTACH_VARIABLE = "TF_REATTACH_PROVIDERS"
ADDRESSES = ("registry.terraform.io/hashicorp/google", "registry.opentofu.org/hashicorp/google")
_PROTOCOL = 5


class ReattachedProvider:
    """A running provider process that Terraform attaches to, configured by environment variables."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        imports.require_extras({"environments on a twin need": "terraform"})
        with tempfile.TemporaryFile() as errors:
            # A separate session: on Ctrl-C, Terraform decides when the provider stops.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sliceworks.infra.provider", REATTACH],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            assert self._process.stdout is not None
            self._socket = self._process.stdout.readline().decode().strip()
            if not self._socket:
                self.end()
                errors.seek(0)
                reason = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise SliceworksError(f"the twin's Terraform provider failed to start: {reason}")

    def variable(self) -> str:
        """The value of TF_REATTACH_PROVIDERS."""
        address = {"Network": "unix", "String": self._socket}
        # "Test": Terraform does not kill the provider at the end.
        config: dict[str, Any] = {"Protocol": "grpc", "ProtocolVersion": _PROTOCOL, "Pid": self._process.pid, "Test": True}
        return orjson.dumps({name: {**config, "Addr": address} for name in ADDRESSES}).decode()

    def end(self) -> None:
        """Stop the provider: it exits when its stdin is closed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


_running: dict[tuple[str, str], ReattachedProvider] = {}
_starting = threading.Lock()


def reattach_provider(address: str, token: str, environment: Mapping[str, str]) -> ReattachedProvider:
    """The provider of a twin's cloud, started once per process and stopped at exit."""
    with _starting:
        if (address, token) not in _running:
            _running[address, token] = provider = ReattachedProvider(environment)
            atexit.register(provider.end)
        return _running[address, token]


Object = dict[str, Any]
PROVIDER = "SLICEWORKS_GOOGLE_PROVIDER"
"""The environment variable that names a folder with Google's provider, used on the twin in place of ours."""

_SERVICES = {
    "ARTIFACT_REGISTRY": "artifactregistry/v1",
    "BIG_QUERY": "bigquery/v2",
    "BIGQUERY": "bigquery/v2",
    "CLOUD_BILLING": "cloudbilling/v1",
    "COMPUTE": "compute/v1",
    "CONTAINER": "container/v1",
    "GKE_HUB": "gkehub/v1",
    "GKE_HUB2": "gkehub/v1",
    "IAM": "iam/v1",
    "IAM_BETA": "iam/v1",
    "PUBSUB": "pubsub/v1",
    "RESOURCE_MANAGER": "cloudresourcemanager/v1",
    "SERVICE_USAGE": "serviceusage/v1",
    "STORAGE": "storage/v1",
    "VERTEX_AI": "aiplatform/v1",
}

TOKEN_CREATOR = "roles/iam.serviceAccountTokenCreator"
_GET_TOKEN = "iam.serviceAccounts.getAccessToken"
_GRANT_POLLS, _GRANT_POLL_SECONDS = 60, 5.0
_UNREACHABLE = "http://127.0.0.1:9"  # requests to APIs without a custom endpoint fail at once
_QUIET = {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}


@dataclass(frozen=True, slots=True)
class Target:
    """Google Cloud: the state is in a bucket, and Terraform impersonates the automation account."""

    def impersonates(self, *, created: bool) -> bool:
        """Whether Terraform acts as the automation account; `created` says that the environment creates the account itself."""
        return True

    def environment(self, folder: Path) -> dict[str, str]:
        """Environment variables of Terraform."""
        return {**os.environ, **_QUIET}

    def provider(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Environment variables for commands that call providers; Terraform starts the provider itself."""
        return dict(environment)

    @property
    def lock_timeout(self) -> int:
        """Seconds to wait for the state lock."""
        return 60

    def backend(self, stage: str, bucket: str, prefix: str) -> Object:
        """The backend configuration of a stage."""
        return {"gcs": {"bucket": bucket, "prefix": f"{prefix}/{stage}"}}

    def session(self, service: str, host: str = "") -> Session:
        """A session with a Google API, with the user's credentials; paths begin with the version."""
        return Session(f"https://{host or service}.googleapis.com", find_credentials())

    def ensure_bucket(self, bucket: str, project: str, region: str) -> None:
        """Do nothing: an administrator created the state bucket; Terraform reports a missing one."""

    def missing_grant(self, project: str, account: str, *, creates: bool) -> str:
        """What the caller lacks to act as a service account, as `ROLE on ACCOUNT for MEMBER`; empty if nothing. Only reads.

        `creates`: an account that does not exist will be created.
        """

        async def find() -> str:
            async with self.session("iam") as session:
                try:
                    allowed = await _may_act(session, f"/v1/projects/{project}/serviceAccounts/{account}")
                except (CloudNotFound, PermissionDenied):  # not created yet, or its service is not enabled yet
                    allowed = not creates or await self._may_act_in(project)
            return "" if allowed else _describe_grant(account, await self._caller())

        return asyncio.run(find())

    def ensure_impersonation(
        self, project: str, account: str, report: Callable[[str], None], approved: Collection[str] | None = None
    ) -> None:
        """Let the caller act as a service account. Even owners need a role for it, which they may grant to themselves.

        With `approved` grants, in the words of `missing_grant`, no other one is made.
        """

        command = f"gcloud iam service-accounts add-iam-policy-binding {account} --project={project} --role={TOKEN_CREATOR}"

        async def ensure() -> None:
            path = f"/v1/projects/{project}/serviceAccounts/{account}"
            async with self.session("iam") as session:
                if await _may_act(session, path):
                    return
                member = await self._caller()
                if approved is not None and _describe_grant(account, member) not in approved:
                    problem = f"you may not act as {account}, and the approved plan does not grant it to {member}"
                    raise SliceworksError(problem, hint=f"plan again as this user, or `{command} --member={member}`")
                await _grant(session, path, member)
                report(f"granted {_describe_grant(account, member)}")
                for _ in range(_GRANT_POLLS):
                    if await _may_act(session, path):
                        return
                    await asyncio.sleep(_GRANT_POLL_SECONDS)
            raise SliceworksError(
                f"you may not act as {account} yet", hint=f"{TOKEN_CREATOR} was granted: apply again in some minutes"
            )

        try:
            asyncio.run(ensure())
        except CloudNotFound:
            return  # the account does not exist
        except PermissionDenied as error:
            problem = f"you may not act as {account}: {error.message}"
            raise SliceworksError(problem, hint=f"`{command} --member=user:YOU`") from error

    async def _may_act_in(self, project: str) -> bool:
        """Whether the caller may get tokens of all service accounts of a project."""
        async with self.session("cloudresourcemanager") as session:
            try:
                return await _may_act(session, f"/v1/projects/{project}")
            except PermissionDenied:
                return False

    async def _caller(self) -> str:
        """The caller as a member of policies."""
        async with self.session("openidconnect") as users:
            email = str((await users.call("GET", "/v1/userinfo"))["email"])
        return f"{'serviceAccount' if email.endswith('.gserviceaccount.com') else 'user'}:{email}"

    def remove_object(self, bucket: str, name: str, generation: str) -> None:
        """Delete one generation of an object in a bucket."""
        path = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"

        async def remove() -> None:
            async with self.root("storage") as session:
                await session.call("DELETE", path, query={"ifGenerationMatch": generation})

        asyncio.run(remove())

    def read_json(self, bucket: str, name: str) -> Object:
        """The content of an object in a bucket; empty if it does not exist."""

        async def read() -> Object:
            async with self.root("storage") as session:
                return await session.call("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}", query={"alt": "media"})

        try:
            return asyncio.run(read())
        except CloudNotFound:
            return {}

    def list_names(self, service: str, path: str, items: str, query: Mapping[str, str]) -> list[str]:
        """Ids of all items of a collection; empty if the collection does not exist."""

        async def list_items() -> list[Object]:
            async with self.root(service) as session:
                return [item async for page in session.pages(path, query) for item in page.get(items) or ()]

        try:
            return [str(item.get("name") or item["id"].rpartition(".")[2]) for item in asyncio.run(list_items())]
        except CloudNotFound:
            return []

    def list_objects(self, bucket: str) -> list[str]:
        """Names of all objects in a bucket, noncurrent versions included."""
        return self.list_names("storage", f"/storage/v1/b/{bucket}/o", "items", {"versions": "true"})

    def list_tables(self, project: str, dataset: str) -> list[str]:
        """Names of all tables in a dataset."""
        return self.list_names("bigquery", f"/bigquery/v2/projects/{project}/datasets/{dataset}/tables", "tables", {})

    def root(self, service: str) -> Session:
        """A session with an older API, whose paths begin with its name."""
        return self.session(service)


def _describe_grant(account: str, member: str) -> str:
    return f"{TOKEN_CREATOR} on {account} for {member}"


async def _grant(session: Session, path: str, member: str) -> None:
    """Grant a member the role to act as the service account of a path."""
    policy = await session.call("POST", f"{path}:getIamPolicy", {})
    binding = {"role": TOKEN_CREATOR, "members": [member]}
    changed = {**policy, "bindings": [*(policy.get("bindings") or ()), binding]}
    await session.call("POST", f"{path}:setIamPolicy", {"policy": changed})


async def _may_act(session: Session, path: str) -> bool:
    """Whether the caller may get tokens of the service account of a path, or of those of a project."""
    answer = await session.call("POST", f"{path}:testIamPermissions", {"permissions": [_GET_TOKEN]})
    return _GET_TOKEN in (answer.get("permissions") or ())


@dataclass(frozen=True, slots=True)
class TwinTarget(Target):
    """A twin's cloud: the state is in a bucket of the twin, and Terraform acts as the account that the environment creates."""

    address: str = ""
    token: str = field(default="", repr=False)

    def impersonates(self, *, created: bool) -> bool:
        """False for an account that an administrator should have created, and for Google's provider, which calls Google for it."""
        return created and not os.environ.get(PROVIDER)

    def environment(self, folder: Path) -> dict[str, str]:
        """The twin's endpoints and credentials, in the variables that Google's provider reads too."""
        credentials = folder / "credentials.json"
        credentials.write_bytes(
            orjson.dumps({"type": "authorized_user", "client_id": "-", "client_secret": "-", "refresh_token": "-"})
        )
        own = {key: value for key, value in os.environ.items() if not key.startswith(("GOOGLE_", "TF_"))}
        return {
            **own,
            **_QUIET,
            **{f"GOOGLE_{name}_CUSTOM_ENDPOINT": f"{self.address}/{path}/" for name, path in _SERVICES.items()},
            "GOOGLE_OAUTH_ACCESS_TOKEN": self.token,
            "GOOGLE_APPLICATION_CREDENTIALS": str(credentials),
            "HTTPS_PROXY": _UNREACHABLE,
            "TF_CLI_CONFIG_FILE": str(self._configuration(folder)),
        }

    def provider(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Attach all commands to one running provider of ours; Terraform starts Google's provider itself."""
        if os.environ.get(PROVIDER):
            return dict(environment)
        return {**environment, REATTACH_VARIABLE: reattach_provider(self.address, self.token, environment).variable()}

    @property
    def lock_timeout(self) -> int:
        """Short: a twin usually has one client."""
        return 3

    def session(self, service: str, host: str = "") -> Session:
        """A session with the twin's API of this name."""
        return Session(f"{self.address}/{service}", Token(self.token))

    def ensure_bucket(self, bucket: str, project: str, region: str) -> None:
        """Create the bucket if it does not exist: a rehearsal has no administrator."""

        async def make() -> None:
            async with self.root("storage") as session:
                try:
                    await session.call("GET", f"/storage/v1/b/{bucket}")
                except CloudNotFound:
                    await session.call("POST", "/storage/v1/b", {"name": bucket, "location": region}, {"project": project})

        asyncio.run(make())

    def root(self, service: str) -> Session:
        """A session at the root of the twin's address."""
        return Session(self.address, Token(self.token))

    def _configuration(self, folder: Path) -> Path:
        """Write Terraform's CLI configuration: install providers from this machine only."""
        file = folder / "terraform.rc"
        mirror = orjson.dumps(str(_mirror(folder))).decode()
        file.write_text(f"provider_installation {{\n  filesystem_mirror {{\n    path = {mirror}\n  }}\n}}\n")
        return file


def _mirror(folder: Path) -> Path:
    """A filesystem mirror with our provider under the name of Google's, or with Google's provider."""
    version, mirror = google_schema().version, folder / "providers"
    text = f'#!/bin/sh\nexec "{sys.executable}" -m sliceworks.infra.provider\n'
    real = os.environ.get(PROVIDER)
    if real:
        text = f'#!/bin/sh\nexec "{Path(real).expanduser() / "terraform-provider-google"}" "$@"\n'
    for host in ("registry.terraform.io", "registry.opentofu.org"):
        home = mirror / host / "hashicorp" / "google" / version / _platform()
        home.mkdir(parents=True, exist_ok=True)
        program = home / f"terraform-provider-google_v{version}"
        if not program.exists() or program.read_text() != text:
            program.write_text(text)
            program.chmod(0o755)
            for lock in folder.glob("stages/*/.terraform.lock.hcl"):
                lock.unlink()  # it holds the checksum of the other provider
    return mirror


def _platform() -> str:
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    return f"{platform.system().lower()}_{machine}"


@dataclass(frozen=True, slots=True)
class GoogleClusterCredentials:
    """Google credentials as credentials of a GKE cluster."""

    cloud: Credentials

    async def headers(self) -> Mapping[str, str]:
        """The header with the token."""
        return await self.cloud.headers()

    async def certificate(self) -> Certificate | None:
        """None: GKE authenticates by token."""
        return None

    async def invalidate(self) -> bool:
        """Fetch another token before the next attempt."""
        self.cloud.invalidate()
        return True


def connect_cluster(cluster: Mapping[str, Any], credentials: Credentials) -> Client:
    """A client for the cluster in the outputs of stage 2; connects on its first request."""
    address = str(cluster["endpoint"])
    authority = base64.b64decode(cluster["ca_certificate"]) if cluster.get("ca_certificate") else None
    connection = Connection(
        server=address if "://" in address else f"https://{address}",
        credentials=GoogleClusterCredentials(credentials),
        ca=authority,
    )
    return Client(HttpsTransport(connection, user_agent="sliceworks"), field_manager="sliceworks")
