"""Where an environment is made: in Google Cloud, or in a twin's cloud. The modules and the commands cannot tell which."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from sliceworks.base.errors import CloudNotFound
from sliceworks.cloud import Session, Token
from sliceworks.cloud.connecting import credentials
from sliceworks.infra.attached import VARIABLE, attached
from sliceworks.infra.standin.schemas import google

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]
PROVIDER = "SLICEWORKS_GOOGLE_PROVIDER"
"""The environment variable that names a folder with the real provider, to be used on the twin in place of the stand-in."""
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
_NOWHERE = "http://127.0.0.1:9"  # what the provider would ask beyond the APIs it is told of is refused at once
_QUIET = {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}


@dataclass(frozen=True, slots=True)
class Target:
    """Google Cloud itself: the state lies in a bucket, and whoever runs this acts as the automation account."""

    impersonates: bool = True

    def environment(self, folder: Path) -> dict[str, str]:
        """What Terraform finds in its environment."""
        return {**os.environ, **_QUIET}

    def provider(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment for what asks providers: Terraform starts its own."""
        return dict(environment)

    @property
    def patience(self) -> int:
        """Seconds to wait for somebody else who works on the same state."""
        return 60

    def backend(self, stage: str, bucket: str, prefix: str) -> Object:
        """Where the state of a stage lies: in the bucket, in a folder of its own."""
        return {"gcs": {"bucket": bucket, "prefix": f"{prefix}/{stage}"}}

    def session(self, service: str, host: str = "") -> Session:
        """One of Google's APIs, asked as whoever runs this; paths begin with the version, but for older APIs."""
        return Session(f"https://{host or service}.googleapis.com", credentials())

    def expect_bucket(self, bucket: str, project: str, region: str) -> None:
        """A bucket for states that no stage makes: an administrator has made it. Terraform says so where that is not true."""

    def remove_object(self, bucket: str, name: str, generation: str) -> None:
        """Remove that version of an object from a bucket."""
        path = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"

        async def remove() -> None:
            async with self.root("storage") as session:
                await session.call("DELETE", path, query={"ifGenerationMatch": generation})

        asyncio.run(remove())

    def root(self, service: str) -> Session:
        """Where an older API is: its paths begin with its own name."""
        return self.session(service)


@dataclass(frozen=True, slots=True)
class TwinTarget(Target):
    """A twin's cloud: the state lies in a bucket there too, and nobody is impersonated."""

    address: str = ""
    token: str = field(default="", repr=False)
    impersonates: bool = False

    def environment(self, folder: Path) -> dict[str, str]:
        """The twin's addresses and credentials, in the variables that the real provider reads too."""
        credentials = folder / "nobody.json"
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
            "HTTPS_PROXY": _NOWHERE,
            "TF_CLI_CONFIG_FILE": str(self._configuration(folder)),
        }

    def provider(self, environment: Mapping[str, str]) -> dict[str, str]:
        """One stand-in serves all commands; a real provider is started by Terraform, as it is used to."""
        if os.environ.get(PROVIDER):
            return dict(environment)
        return {**environment, VARIABLE: attached(self.address, self.token, environment).variable()}

    @property
    def patience(self) -> int:
        """Nobody else works on a twin."""
        return 3

    def session(self, service: str, host: str = "") -> Session:
        """The same API of the twin."""
        return Session(f"{self.address}/{service}", Token(self.token))

    def expect_bucket(self, bucket: str, project: str, region: str) -> None:
        """Make it, where it is not there: a rehearsal has no administrator."""

        async def make() -> None:
            async with self.root("storage") as session:
                try:
                    await session.call("GET", f"/storage/v1/b/{bucket}")
                except CloudNotFound:
                    await session.call("POST", "/storage/v1/b", {"name": bucket, "location": region}, {"project": project})

        asyncio.run(make())

    def root(self, service: str) -> Session:
        """At the root of the twin's address."""
        return Session(self.address, Token(self.token))

    def _configuration(self, folder: Path) -> Path:
        """Terraform's own settings: providers come from this machine alone."""
        file = folder / "terraform.rc"
        mirror = orjson.dumps(str(_mirror(folder))).decode()
        file.write_text(f"provider_installation {{\n  filesystem_mirror {{\n    path = {mirror}\n  }}\n}}\n")
        return file


def _mirror(folder: Path) -> Path:
    """A folder from which Terraform installs a provider: the stand-in as if it were the real one, or the real one itself."""
    version, mirror = google().version, folder / "providers"
    text = f'#!/bin/sh\nexec "{sys.executable}" -m sliceworks.infra.standin\n'
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
                lock.unlink()  # it holds the provider to what the other one was
    return mirror


def _platform() -> str:
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    return f"{platform.system().lower()}_{machine}"
