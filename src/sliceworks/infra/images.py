"""Our own container images, built by Cloud Build and pushed to the environment's registry. Pure.

Each image is a target of `deploy/Dockerfile`; the build runs in a checkout of the sources, as the automation account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks import __version__
from sliceworks.base import yamls
from sliceworks.infra.names import Names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
FILE = "cloudbuild.images.yaml"
DOCKERFILE = "deploy/Dockerfile"
_DOCKER = "gcr.io/cloud-builders/docker:24.0.9"
_TIMEOUT = "3600s"


def image(environment: Environment, name: str) -> str:
    """What one of our images is called in the environment's registry."""
    return f"{Names(environment).images}/{name}:{__version__}"


def wanted(environment: Environment) -> list[str]:
    """The images that the document asks for: by their names, or by what needs them."""
    registry, addons = environment.spec.registry, environment.spec.addons
    if registry is None:
        return []
    needed = {"gateway": addons.gateway, "controllers": (addons.slices or addons.graphs) and not addons.image}
    return [*registry.build, *(name for name, needs in needed.items() if needs and name not in registry.build)]


def tag(environment: Environment) -> str:
    """What builds of an environment's images are found by."""
    return f"{environment.metadata.name}-images"


def build(environment: Environment, *, only: Sequence[str] | None = None) -> Object:
    """The build of all images that are wanted, or of some of them. They are built side by side."""
    names = wanted(environment) if only is None else only
    spec = environment.spec
    account = Names(environment).automation_account
    return {
        "steps": [_step(name) for name in names],
        "images": [f"${{_REGISTRY}}/{name}:${{_TAG}}" for name in names],
        "substitutions": {"_REGISTRY": Names(environment).images, "_TAG": __version__, "_SERVICE_ACCOUNT": account},
        "serviceAccount": f"projects/{spec.project}/serviceAccounts/${{_SERVICE_ACCOUNT}}",
        "options": {"logging": "CLOUD_LOGGING_ONLY", "dynamicSubstitutions": True, "machineType": "E2_HIGHCPU_8"},
        "tags": [tag(environment)],
        "timeout": _TIMEOUT,
    }


def _step(name: str) -> Object:
    args = ["build", f"--file={DOCKERFILE}", f"--target={name}", f"--tag=${{_REGISTRY}}/{name}:${{_TAG}}", "."]
    return {"id": f"build {name}", "name": _DOCKER, "args": args, "waitFor": ["-"]}


def command(environment: Environment) -> str:
    """How to run it: the sources are a checkout of this project. Empty where no image is wanted."""
    spec = environment.spec
    submit = f"gcloud builds submit SOURCES --project {spec.project} --region {spec.region} --config {FILE}"
    return f"{submit}\n" if wanted(environment) else ""


def files(environment: Environment) -> dict[str, str]:
    """The build file by its name; nothing where no image is wanted."""
    return {FILE: yamls.dump(build(environment))} if wanted(environment) else {}
