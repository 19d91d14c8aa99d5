"""Our images: required images are built, pushed to the environment's registry, and run unprivileged."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import yaml
from tests.support.environments import example, small

from sliceworks import __version__
from sliceworks.infra import cloudbuild, images
from sliceworks.infra import images as contents
from sliceworks.specs.environment.services import Registry

ROOT = Path(__file__).parents[2]
STAGES = re.split(r"(?m)^FROM ", (ROOT / images.DOCKERFILE).read_text())[1:]


def test_required_images_are_built_and_pushed() -> None:
    build = yaml.safe_load(cloudbuild.builds(example("saxml"))[images.FILE])
    assert [step["id"] for step in build["steps"]] == ["build gateway", "build converter", "build load-worker"]
    assert build["images"] == [f"${{_REGISTRY}}/{name}:${{_TAG}}" for name in ("gateway", "converter", "load-worker")]
    assert build["substitutions"]["_REGISTRY"] == "us-west4-docker.pkg.dev/my-project/saxml-images"
    assert build["serviceAccount"] == "projects/my-project/serviceAccounts/${_SERVICE_ACCOUNT}"
    assert images.image(example("saxml"), "gateway") == f"us-west4-docker.pkg.dev/my-project/saxml-images/gateway:{__version__}"
    assert "--config cloudbuild.images.yaml" in cloudbuild.commands(example("saxml"))


def test_environment_without_images_has_no_build() -> None:
    assert images.FILE not in cloudbuild.builds(example("training"))
    assert images.FILE not in cloudbuild.commands(example("training"))


def test_gateway_image_is_built() -> None:
    assert images.required_images(example("triton")) == ["gateway"]
    assert images.FILE in cloudbuild.builds(example("triton"))


def test_controller_image_is_built_unless_overridden() -> None:
    assert images.required_images(small("  registry: {}\n  addons: {slices: true}\n")) == ["controllers"]
    assert images.required_images(small("  registry: {}\n  addons: {slices: true, image: 'registry.example/ours:1'}\n")) == []
    assert images.required_images(small("  addons: {slices: true}\n")) == []


def test_every_image_target_runs_unprivileged() -> None:
    targets = {result[1]: stage for stage in STAGES if (result := re.match(r"\S+ AS (\S+)", stage))}
    names = get_args(get_args(Registry.model_fields["build"].annotation)[0])
    assert set(names) <= set(targets)
    for name in names:
        assert re.findall(r"(?m)^USER (.+)$", targets[name]) == ["65532:65532"]
    assert STAGES[-1].split() == ["controllers"]  # the default target


def test_image_inputs_exist_and_are_pinned() -> None:
    text = (ROOT / images.DOCKERFILE).read_text()
    for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", text):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    arguments = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", text))
    own = {result[1] for stage in STAGES if (result := re.search(r" AS (\S+)", stage))}
    for image in re.findall(r"(?m)^FROM (\S+)|--from=(\S+)", text):
        name = re.sub(r"^\$\{(\w+)\}$", lambda result: arguments[result[1]], image[0] or image[1])
        assert name in own or (not name.endswith(":latest") and ":" in name)


def test_wheel_inputs_are_copied_into_the_build() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    taken = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    copied = {line.split()[0] for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", STAGES[0])}
    assert taken == [f"/{pattern}" for pattern in contents.WHEEL_FILES]
    assert {pattern.partition("/")[0] for pattern in contents.WHEEL_FILES} <= copied
