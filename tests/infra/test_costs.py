"""What the environments of the examples cost: every pool has a list price, but for machines where no list has any."""

from __future__ import annotations

from pathlib import Path

import pytest

from sliceworks.base import yamls
from sliceworks.infra.costs import costs
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*.yaml") if "kind: Environment" in path.read_text())
# A region of TPU v4 alone: Google's list has neither vCPUs nor memory of other machines there.
UNLISTED = "us-central2"


def _read(file: Path) -> Environment:
    found = [each for each in yamls.load_path(file) if each.data.get("kind") == "Environment"]
    return documents.read_as(found[0], Environment)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_every_pool_of_an_example_has_a_price_where_there_is_one(file: Path) -> None:
    spec = _read(file).spec
    unknown = {each.what for each in costs(spec) if each.each is None}
    if spec.region == UNLISTED:
        assert not [name for name in unknown if name.startswith("v4-")]
    else:
        assert unknown == set()


def test_there_are_examples_inside_and_outside_of_the_region_that_is_known_best() -> None:
    assert {_read(file).spec.region for file in FILES} >= {"us-central1", "us-west4", UNLISTED}


def test_the_same_pools_cost_by_their_region() -> None:
    spec = _read(EXAMPLES / "environments" / "triton" / "environment.yaml").spec
    here, there = (costs(spec.model_copy(update={"region": region})) for region in ("us-central1", "southamerica-east1"))
    dearer = [(one.hourly, other.hourly) for one, other in zip(here, there, strict=True) if one.hourly and other.hourly]
    assert dearer
    assert all(one < other for one, other in dearer)
