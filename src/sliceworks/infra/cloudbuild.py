"""Cloud Build: an environment made by Google's own runners instead of this machine. Pure.

A folder with the modules, a variables file for each stage, a build that provisions and one that destroys. Both run as the
automation account, which has the roles that the environment needs and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.infra import images
from sliceworks.infra.names import Names
from sliceworks.infra.stages import stages

if TYPE_CHECKING:
    from sliceworks.infra.stages import Stage
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
IMAGE = "hashicorp/terraform:1.11.4"
_TIMEOUT = "7200s"
_BOOTSTRAP = "0-bootstrap"


def builds(environment: Environment) -> dict[str, str]:
    """The build files by name. The bootstrap is not among their stages: it makes the account that builds run as."""
    found = [stage for stage in stages(environment) if stage.name != _BOOTSTRAP]
    provision = [_apply(stage) for stage in found] + [_tell(found)]
    destroy = [_destroy(stage) for stage in reversed(found)]
    return {
        "cloudbuild.provision.yaml": yamls.dump(_build(environment, "provision", provision)),
        "cloudbuild.destroy.yaml": yamls.dump(_build(environment, "destroy", destroy)),
        **images.files(environment),
    }


def _build(environment: Environment, verb: str, steps: list[Object]) -> Object:
    names = Names(environment)
    return {
        "steps": steps,
        "substitutions": {
            "_STATE_BUCKET": names.state_bucket,
            "_STATE_PREFIX": names.state_prefix,
            "_SERVICE_ACCOUNT": names.automation_account,
        },
        "serviceAccount": f"projects/{environment.spec.project}/serviceAccounts/${{_SERVICE_ACCOUNT}}",
        "options": {"logging": "CLOUD_LOGGING_ONLY", "dynamicSubstitutions": True},
        "tags": [f"{environment.metadata.name}-infra-deployment", verb],
        "timeout": _TIMEOUT,
    }


def _apply(stage: Stage) -> Object:
    """Make a stage, and hand what it gives to those that take it."""
    return _step(f"make {stage.name}", stage, [*_begin(stage), "terraform apply -auto-approve -input=false -no-color"])


def _destroy(stage: Stage) -> Object:
    return _step(f"remove {stage.name}", stage, [*_begin(stage), "terraform destroy -auto-approve -input=false -no-color"])


def _begin(stage: Stage) -> list[str]:
    """Read what earlier stages gave from their states, so that each step stands alone and a build can be run again."""
    lines = []
    for output, other in stage.takes.items():
        if other == _BOOTSTRAP:
            continue  # the build already is the account that the bootstrap made
        lines.append(
            f"(cd ../{other} && {_init(other)} >/dev/null && "
            f'printf \'{{"{output}": %s}}\' "$(terraform output -json {output})") > {output}.auto.tfvars.json'
        )
    return [*lines, _init(stage.name)]


def _init(stage: str) -> str:
    state = f'-backend-config="bucket=${{_STATE_BUCKET}}" -backend-config="prefix=${{_STATE_PREFIX}}/{stage}"'
    return f"terraform init -input=false -no-color {state}"


def _step(title: str, stage: Stage, lines: list[str]) -> Object:
    return {
        "id": title,
        "name": IMAGE,
        "entrypoint": "sh",
        "dir": f"stages/{stage.name}",
        "args": ["-ec", "\n".join(lines) + "\n"],
    }


def _tell(found: list[Stage]) -> Object:
    """The last step prints the names of everything that was made."""
    lines = [f'echo "== {stage.name}"; (cd ../{stage.name} && terraform state list && terraform output)' for stage in found]
    return _step("tell what was made", found[-1], lines)


def commands(environment: Environment) -> str:
    """How to run the builds."""
    spec = environment.spec
    submit = f"gcloud builds submit . --project {spec.project} --region {spec.region} --config"
    tag = f"{environment.metadata.name}-infra-deployment"
    listed = f"gcloud builds list --project {spec.project} --region {spec.region} --filter \"tags='{tag}'\""
    built = images.command(environment)
    return f"{submit} cloudbuild.provision.yaml\n{built}{submit} cloudbuild.destroy.yaml\n{listed}\n"
