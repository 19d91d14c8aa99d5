"""A copy of the checkout with untracked files that must not be packaged."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
STAGE = "terraform/stages/1-base"
UNTRACKED = (
    *(f"{STAGE}/{name}" for name in ("terraform.tfstate", "terraform.tfstate.backup", "errored.tfstate", ".terraform.lock.hcl")),
    *(f"{STAGE}/{name}" for name in ("plan", "plan.tfplan", "plan.json", "terraform.tfvars", "environment.auto.tfvars.json")),
    *(f"{STAGE}/{name}" for name in ("backend.tf", "secret_override.tf", "crash.log", ".env", "main.tf.orig")),
    f"{STAGE}/.terraform/environment",
    f"{STAGE}/.terraform/modules/network/main.tf",
    f"{STAGE}/.terraform/providers/registry.example.com/google",
    f"{STAGE}/.terraform/main.tf",
    "terraform/modules/network/.terraform/modules/modules.json",
    "terraform/terraform.tfstate",
    "terraform/.cache/archive.tar.gz",
    "deploy/controllers/install.yaml.orig",
    "examples/environments/training/.sliceworks/state.json",
    "examples/environments/training/terraform.tfstate",
    "src/sliceworks/infra/terraform.tfstate",
    "src/sliceworks/infra/.terraform/terraform.tfstate",
)


def littered_checkout(folder: Path) -> Path:
    """Copy the sources that are packaged and add files that must not be."""
    for name in ("src", "terraform", "deploy", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in UNTRACKED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret")
    return folder
