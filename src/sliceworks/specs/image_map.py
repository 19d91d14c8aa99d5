"""ImageMap: the programs of this machine that a twin runs instead of container images."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sliceworks.base import names
from sliceworks.specs.common import InvalidFields, Metadata, Spec, Variable


def _check_pattern(value: str) -> str:
    if error := names.image_error(re.sub(r"\*+", "x", value)):
        raise ValueError(f"must be an image, or a pattern such as example.com/tools/* or nginx:1.*: {error}")
    return value


def _check_path(value: str) -> str:
    if not value.startswith("/") or ".." in value.split("/") or value.strip("/") == "":
        raise ValueError(f"must be an absolute path in the container, got {value!r}")
    return value


ImagePattern = Annotated[str, AfterValidator(_check_pattern)]
ContainerPath = Annotated[str, AfterValidator(_check_path)]
NonEmpty = Annotated[str, Field(min_length=1)]


class ImageProgram(Spec):
    """What containers of an image run on this machine."""

    image: ImagePattern = Field(
        description="Image, as in containers; `*` matches any characters. Without a tag it matches every tag and digest."
    )
    files: dict[ContainerPath, NonEmpty] = Field(
        default_factory=dict,
        description="Files and folders of this machine by their path in containers: small files as copies, others read-only."
        " Relative paths start at the folder of the document.",
    )
    entrypoint: list[NonEmpty] = Field(default_factory=list, description="Program and its first arguments; `command` replaces it.")
    cmd: list[str] = Field(default_factory=list, description="Further arguments; `command` and `args` replace them.")
    env: dict[Variable, str] = Field(default_factory=dict, description="Environment variables; those of a container win.")
    working_dir: ContainerPath | None = Field(default=None, description="Working directory; `workingDir` replaces it.")
    missing: bool = Field(default=False, description="The image cannot be pulled: its containers wait with `ImagePullBackOff`.")


class ImageMapSpec(Spec):
    """Spec of an ImageMap."""

    images: Annotated[list[ImageProgram], Field(min_length=1)] = Field(
        description="The first entry that matches an image applies. Pods with other images are simulated."
    )

    @model_validator(mode="after")
    def _check_unique(self) -> Self:
        patterns = [item.image for item in self.images]
        problems = [
            (("images", at, "image"), f"duplicate image: {pattern}")
            for at, pattern in enumerate(patterns)
            if pattern in patterns[:at]
        ]
        if problems:
            raise InvalidFields(problems)
        return self


class ImageMap(Spec):
    """The document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["ImageMap"]
    metadata: Metadata
    spec: ImageMapSpec
