"""What an environment asks for and `env apply` does not do, or leaves behind: said plainly, before and after. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.infra import images
from sliceworks.infra.cluster.controllers import image
from sliceworks.infra.names import Names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.specs.environment import Environment


def undone(environment: Environment, *, builds: bool = True) -> Iterator[str]:
    """What applying the document leaves to people. `builds` says that there are sources to build images from."""
    spec, addons = environment.spec, environment.spec.addons
    for name, pool in spec.pools.gpu.items():
        if pool.driver == "none":
            yield f"pools.gpu.{name}: GKE installs no NVIDIA driver, and neither does apply: bring a DaemonSet that does"
    wanted = [name for name in ("slices", "graphs") if getattr(addons, name)]
    if wanted and not image(environment):
        yield f"addons.{wanted[0]}: there is no image of our controllers: give registry with build: [controllers], or addons.image"
    wanted_images = images.wanted(environment)
    if wanted_images and not builds:
        listed = ", ".join(wanted_images)
        yield f"registry.build: there are no sources here to build images from ({listed}): give a checkout with --sources"
    if addons.gateway and not spec.registry:
        yield "addons.gateway: there is no registry to build its image into: give registry, or name an image in each model service"
    if spec.teams and not addons.kueue:
        yield "teams: without addons.kueue they get namespaces and accounts, and no queues"
    if spec.self_service and spec.self_service.graphs and not addons.graphs:
        yield "selfService.graphs: nobody would serve them: set addons.graphs to true"


def staying(environment: Environment) -> Iterator[str]:
    """What is there after everything was destroyed."""
    spec, names = environment.spec, Names(environment)
    yield f"project {spec.project}, and the services that are enabled in it"
    existing = spec.network.existing
    if existing:
        yield f"network {existing.network} of project {existing.host_project or spec.project}"
    for email in (spec.identities.nodes.existing, *(each.existing for each in spec.identities.workloads.values())):
        if email:
            yield f"service account {email}"
    if spec.registry and spec.registry.existing:
        yield f"registry {spec.registry.existing}, with its images"
    if not spec.automation.create:
        yield f"bucket {spec.automation.bucket} and service account {names.automation_account}"
    if names.state_bucket != spec.automation.bucket:
        yield f"bucket {names.state_bucket}, with the state of this environment"
