"""Images among what `sliceworks env` makes: which are to be built, and from which sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from sliceworks.infra.building import Builder
    from sliceworks.infra.environments import Site
    from sliceworks.infra.terraform import Change

REGISTRY_STAGE = "1-base"
"""The stage that makes the registry: before it, nothing can be pushed."""
sources_option = click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A checkout of Sliceworks that images are built from.  [default: the one that this program runs from]",
)


class Images(NamedTuple):
    """What becomes of images, as a stage of its own."""

    name: str = "images"


def builder(site: Site, folder: Path | None) -> Builder:
    """Who has an environment's images built."""
    from sliceworks.infra import sources
    from sliceworks.infra.building import Builder

    return Builder(site.environment, site.target, sources.given(folder) if folder else sources.own())


def to_build(found: Builder, *, registry: bool) -> list[Change]:
    """Images that applying would have built. Where there is no registry yet, nobody needs to be asked what is in it."""
    from sliceworks.infra import images
    from sliceworks.infra.terraform import Change

    if found.folder is None:
        return []
    names = found.missing() if registry else images.wanted(found.environment)
    return [Change(images.image(found.environment, name), "create") for name in names]
