"""Infrastructure Manager: an environment made by Google's own service for Terraform. Pure.

Each stage is a deployment, which keeps its state by itself. What a stage takes from those before it is known beforehand, for
names follow from the document; so a deployment is a folder of files and a file of inputs, and can be looked at before it is made.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.infra import needs
from sliceworks.infra.names import Names
from sliceworks.infra.stages import stages

if TYPE_CHECKING:
    from sliceworks.infra.stages import Stage
    from sliceworks.specs.environment import Environment

FOLDER = "infrastructure-manager"
INPUTS = "inputs.tfvars"
ACCOUNT = "infrastructure-manager-sa"
_BOOTSTRAP = "0-bootstrap"
_OWN_ROLES = frozenset({"roles/config.agent", "roles/compute.storageAdmin"})
_OWN_SERVICES = frozenset({"config.googleapis.com"})
_HEAD = '#!/bin/sh\n# {title}\nset -eu\ncd "$(dirname "$0")"\n\n'


def deployments(environment: Environment) -> tuple[Stage, ...]:
    """The stages that are deployments. The bootstrap is none: what it makes, the account's file does or nobody needs."""
    return tuple(stage for stage in stages(environment) if stage.name != _BOOTSTRAP)


def inputs(environment: Environment, stage: Stage) -> str:
    """A deployment's inputs, as Terraform reads them. A deployment acts as its own account and nobody else."""
    expected = {name: value for each in stages(environment) for name, value in each.expected.items()}
    taken = {output: expected[output] for output in stage.takes if output != "bootstrap"}
    given = {**stage.variables, **taken, "bootstrap": {"service_account": None}}
    return "".join(f"{name} = {_hcl(value)}\n" for name, value in given.items())


def _hcl(value: Any) -> str:
    """JSON is a way to write Terraform's values too, but for its own two signs in texts."""
    return orjson.dumps(value).decode().replace("${", "$${").replace("%{", "%%{")


def roles(environment: Environment) -> list[str]:
    """The roles of the account that deployments run as: that of an agent, and what the stages need."""
    return sorted({*needs.roles(environment.spec), *_OWN_ROLES})


def scripts(environment: Environment) -> dict[str, str]:
    """The command lines, as files to read and run: the account once, then make or remove."""
    found = deployments(environment)
    return {
        "account.sh": _account(environment),
        "apply.sh": _HEAD.format(title="Make or change all deployments, first to last.")
        + "\n".join(_apply(environment, stage) for stage in found),
        "destroy.sh": _HEAD.format(title="Remove all deployments and what they made, last to first.")
        + "\n".join(_delete(environment, stage) for stage in reversed(found)),
    }


def _account(environment: Environment) -> str:
    project = environment.spec.project
    services = sorted({*needs.services(environment.spec), *_OWN_SERVICES})
    address = Names(environment).account(ACCOUNT)
    member = f"serviceAccount:{address}"
    lines = [
        f"gcloud services enable --project={project} \\\n  " + " \\\n  ".join(services),
        f"gcloud iam service-accounts describe {address} --project={project} >/dev/null 2>&1 ||",
        f"  gcloud iam service-accounts create {ACCOUNT} --project={project}",
    ]
    lines += [
        f"gcloud projects add-iam-policy-binding {project} --condition=None --quiet \\\n  --member={member} --role={role}"
        for role in roles(environment)
    ]
    return _HEAD.format(title="Once: the services, and the account that deployments run as.") + "\n".join(lines) + "\n"


def _path(environment: Environment, stage: Stage) -> str:
    spec = environment.spec
    return f"projects/{spec.project}/locations/{spec.region}/deployments/{environment.metadata.name}-{stage.name}"


def _apply(environment: Environment, stage: Stage) -> str:
    spec = environment.spec
    account = f"projects/{spec.project}/serviceAccounts/{Names(environment).account(ACCOUNT)}"
    return (
        f"gcloud infra-manager deployments apply {_path(environment, stage)} \\\n"
        f"  --service-account={account} \\\n"
        f"  --local-source={stage.name} \\\n"
        f"  --inputs-file={stage.name}/{INPUTS} \\\n"
        f"  --labels=environment={environment.metadata.name}\n"
    )


def _delete(environment: Environment, stage: Stage) -> str:
    return f"gcloud infra-manager deployments delete {_path(environment, stage)} --quiet\n"


def modules_of(text: str) -> list[str]:
    """The modules that a stage's file uses."""
    return re.findall(r'"\./modules/([\w-]+)"', text)


def standalone(text: str) -> str:
    """A stage's file for a folder that has the modules inside it."""
    return text.replace('"../../modules/', '"./modules/')
