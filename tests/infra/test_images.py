"""Our own images: what an environment asks for is built, pushed to its registry, and runs as nobody of importance."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import yaml
from tests.support.environments import example, small

from sliceworks import __version__
from sliceworks.infra import cloudbuild, contents, images
from sliceworks.specs.environment.services import Registry

ROOT = Path(__file__).parents[2]
STAGES = re.split(r"(?m)^FROM ", (ROOT / images.DOCKERFILE).read_text())[1:]


def test_every_image_that_is_asked_for_is_built_and_pushed() -> None:
    build = yaml.safe_load(cloudbuild.builds(example("saxml"))[images.FILE])
    assert [step["id"] for step in build["steps"]] == ["build gateway", "build converter", "build load-worker"]
    assert build["images"] == [f"${{_REGISTRY}}/{name}:${{_TAG}}" for name in ("gateway", "converter", "load-worker")]
    assert build["substitutions"]["_REGISTRY"] == "us-west4-docker.pkg.dev/my-project/saxml-images"
    assert build["serviceAccount"] == "projects/my-project/serviceAccounts/${_SERVICE_ACCOUNT}"
    assert images.image(example("saxml"), "gateway") == f"us-west4-docker.pkg.dev/my-project/saxml-images/gateway:{__version__}"
    assert "--config cloudbuild.images.yaml" in cloudbuild.commands(example("saxml"))


def test_an_environment_that_wants_none_has_no_build() -> None:
    assert images.FILE not in cloudbuild.builds(example("training"))
    assert images.FILE not in cloudbuild.commands(example("training"))


def test_gateways_have_their_image_built() -> None:
    assert images.wanted(example("triton")) == ["gateway"]
    assert images.FILE in cloudbuild.builds(example("triton"))


def test_controllers_have_their_image_built_unless_another_is_named() -> None:
    assert images.wanted(small("  registry: {}\n  addons: {slices: true}\n")) == ["controllers"]
    assert images.wanted(small("  registry: {}\n  addons: {slices: true, image: 'registry.example/ours:1'}\n")) == []
    assert images.wanted(small("  addons: {slices: true}\n")) == []


def test_every_image_is_a_target_that_runs_as_nobody_of_importance() -> None:
    targets = {found[1]: stage for stage in STAGES if (found := re.match(r"\S+ AS (\S+)", stage))}
    names = get_args(get_args(Registry.model_fields["build"].annotation)[0])
    assert set(names) <= set(targets)
    for name in names:
        assert re.findall(r"(?m)^USER (.+)$", targets[name]) == ["65532:65532"]
    assert STAGES[-1].split() == ["controllers"]  # what is built when no target is named


def test_what_images_are_made_of_is_there_and_pinned() -> None:
    text = (ROOT / images.DOCKERFILE).read_text()
    for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", text):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    given = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", text))
    own = {found[1] for stage in STAGES if (found := re.search(r" AS (\S+)", stage))}
    for image in re.findall(r"(?m)^FROM (\S+)|--from=(\S+)", text):
        name = re.sub(r"^\$\{(\w+)\}$", lambda found: given[found[1]], image[0] or image[1])
        assert name in own or (not name.endswith(":latest") and ":" in name)


def test_all_that_the_wheel_takes_along_is_there_when_it_is_built() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    taken = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    copied = {line.split()[0] for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", STAGES[0])}
    assert taken == [f"/{pattern}" for pattern in contents.WHEEL]
    assert {pattern.partition("/")[0] for pattern in contents.WHEEL} <= copied
