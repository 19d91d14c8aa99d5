"""Where an environment is made: in Google Cloud, or in a twin's cloud. The modules and the commands cannot tell which."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.infra.standin.schemas import google

if TYPE_CHECKING:
    from pathlib import Path

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
BOOTSTRAP = "0-bootstrap"
_BESIDE: Object = {"local": {"path": "terraform.tfstate"}}
_NOWHERE = "http://127.0.0.1:9"  # what the provider would ask beyond the APIs it is told of is refused at once
_QUIET = {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}


@dataclass(frozen=True, slots=True)
class Target:
    """Google Cloud itself: the state lies in a bucket, and whoever runs this acts as the automation account."""

    impersonates: bool = True

    @property
    def installs(self) -> bool:
        """Whether Terraform installs the provider itself."""
        return True

    def environment(self, folder: Path) -> dict[str, str]:
        """What Terraform finds in its environment."""
        return {**os.environ, **_QUIET}

    def backend(self, stage: str, bucket: str, prefix: str) -> Object:
        """Where the state of a stage lies: in the bucket, but for the stage that makes the bucket."""
        if stage == BOOTSTRAP:
            return _BESIDE
        return {"gcs": {"bucket": bucket, "prefix": f"{prefix}/{stage}"}}


@dataclass(frozen=True, slots=True)
class TwinTarget(Target):
    """A twin's cloud: the state lies beside the files, and nobody is impersonated."""

    address: str = ""
    token: str = field(default="", repr=False)
    impersonates: bool = False

    @property
    def installs(self) -> bool:
        """Not when somebody named a folder that has it."""
        return not os.environ.get(PROVIDER)

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

    def backend(self, stage: str, bucket: str, prefix: str) -> Object:
        """In the stage's own folder, which is where Terraform puts it when it is told nothing."""
        return {}

    def _configuration(self, folder: Path) -> Path:
        """Terraform's own settings: providers come from this machine alone."""
        file = folder / "terraform.rc"
        real = os.environ.get(PROVIDER)
        if real:
            rule = f'  dev_overrides {{\n    "hashicorp/google" = {orjson.dumps(real).decode()}\n  }}\n'
        else:
            rule = f"  filesystem_mirror {{\n    path = {orjson.dumps(str(_mirror(folder))).decode()}\n  }}\n"
        file.write_text(f"provider_installation {{\n{rule}}}\n")
        return file


def _mirror(folder: Path) -> Path:
    """A folder from which Terraform installs the stand-in as if it were the real provider of that version."""
    version, mirror = google().version, folder / "providers"
    for host in ("registry.terraform.io", "registry.opentofu.org"):
        home = mirror / host / "hashicorp" / "google" / version / _platform()
        home.mkdir(parents=True, exist_ok=True)
        program = home / f"terraform-provider-google_v{version}"
        text = f'#!/bin/sh\nexec "{sys.executable}" -m sliceworks.infra.standin\n'
        if not program.exists() or program.read_text() != text:
            program.write_text(text)
            program.chmod(0o755)
    return mirror


def _platform() -> str:
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    return f"{platform.system().lower()}_{machine}"
