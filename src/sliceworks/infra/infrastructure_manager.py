"""Infrastructure Manager deployments of an Environment. Pure.

Each stage is a deployment with its own state. The outputs of earlier stages are known in advance, since names are derived
from the document; so each deployment is a folder of files and a file of inputs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.infra import stages
from sliceworks.infra.stages import Names, compile_stages

if TYPE_CHECKING:
    from sliceworks.infra.stages import Stage
    from sliceworks.specs.environment import Environment

FOLDER = "infrastructure-manager"
INPUTS = "inputs.tfvars"
ACCOUNT = "infrastructure-manager-sa"
_BOOTSTRAP = "0-bootstrap"
_OWN_ROLES = frozenset({"roles/config.agent", "roles/compute.storageAdmin"})
_OWN_SERVICES = frozenset({"config.googleapis.com"})
_MAX_ROLES = 10
_HEAD = '#!/bin/sh\n# {title}\nset -eu\ncd "$(dirname "$0")"\n\n'


def deployments(environment: Environment) -> tuple[Stage, ...]:
    """The stages that become deployments: all but the bootstrap, which `account.sh` replaces."""
    return tuple(stage for stage in compile_stages(environment) if stage.name != _BOOTSTRAP)


def inputs(environment: Environment, stage: Stage) -> str:
    """Input variables of a deployment as HCL. Deployments do not impersonate another account."""
    expected = {name: value for item in compile_stages(environment) for name, value in item.expected.items()}
    earlier_outputs = {output: expected[output] for output in stage.takes if output != "bootstrap"}
    variables = {**stage.variables, **earlier_outputs, "bootstrap": {"service_account": None}}
    return "".join(f"{name} = {_hcl(value)}\n" for name, value in variables.items())


def _hcl(value: Any) -> str:
    """JSON is valid HCL except for template sequences in strings, which are escaped."""
    return orjson.dumps(value).decode().replace("${", "$${").replace("%{", "%%{")


def roles(environment: Environment) -> list[str]:
    """Roles of the account that deployments run as."""
    return sorted({*stages.required_roles(environment.spec), *_OWN_ROLES})


def scripts(environment: Environment) -> dict[str, str]:
    """Shell scripts by name: create the account once, then apply or destroy."""
    stages = deployments(environment)
    return {
        "account.sh": _account(environment),
        "apply.sh": _HEAD.format(title="Create or update all deployments in order.")
        + "\n".join(_apply(environment, stage) for stage in stages),
        "destroy.sh": _HEAD.format(title="Delete all deployments and their resources in reverse order.")
        + "\n".join(_delete(environment, stage) for stage in reversed(stages)),
    }


def _account(environment: Environment) -> str:
    project = environment.spec.project
    services = sorted({*stages.required_services(environment.spec), *_OWN_SERVICES})
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
    lines.append(
        f"gcloud projects add-iam-policy-binding {project} --condition-from-file=- --quiet \\\n"
        f"  --member={member} --role=roles/resourcemanager.projectIamAdmin <<'CONDITION'\n"
        f"title: only-roles-of-the-environment\nexpression: {_grant_condition(environment)}\nCONDITION"
    )
    return (
        _HEAD.format(title="Run once: enable the services and create the account that deployments run as.")
        + "\n".join(lines)
        + "\n"
    )


def _grant_condition(environment: Environment) -> str:
    """The IAM condition that lets the account grant only roles of the environment; a list may have ten roles."""
    granted = stages.granted_roles(environment)
    parts = [granted[index : index + _MAX_ROLES] for index in range(0, len(granted), _MAX_ROLES)]
    return " || ".join(f"api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly({part})" for part in parts)


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
    """Modules that a stage file uses."""
    return re.findall(r'"\./modules/([\w-]+)"', text)


def standalone(text: str) -> str:
    """The stage file with module paths inside its own folder."""
    return text.replace('"../../modules/', '"./modules/')
