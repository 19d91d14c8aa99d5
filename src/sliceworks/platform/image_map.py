"""Loads an ImageMap for a twin: its files must exist on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.specs import documents as specs
from sliceworks.specs import image_map as spec

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.twin.nodes.runtime.image import ImageMap


def load(path: Path) -> ImageMap:
    """The images of a document; InvalidDocument names file, line and field."""
    from sliceworks.twin.nodes.runtime.image import Image, ImageMap

    document = yaml_documents.load_one(path, "ImageMap")
    folder = path.parent.resolve()
    problems, images = [], []
    for at, item in enumerate(specs.read_as(document, spec.ImageMap).spec.images):
        files = {target.rstrip("/"): folder / source for target, source in item.files.items()}
        for target, source in item.files.items():
            if not (folder / source).exists():
                field = f"spec.images[{at}].files.{target}"
                place = document.place("spec", "images", at, "files", target)
                problems.append(InvalidDocument(f"{field}: file {source} not found", place=place))
        image = Image(tuple(item.entrypoint), tuple(item.cmd), item.env, item.working_dir or "", files, item.missing)
        images.append((item.image, image))
    if problems:
        raise InvalidDocument.first_of(problems)
    return ImageMap(images)
