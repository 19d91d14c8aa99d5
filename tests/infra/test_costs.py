"""Costs of the examples' environments: every pool has an on-demand price, except machines without a published price."""

from __future__ import annotations

from pathlib import Path

import pytest

from sliceworks.base import yaml_documents
from sliceworks.infra.pools import estimate_costs
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*.yaml") if "kind: Environment" in path.read_text())
# A region with only TPU v4: Google publishes no vCPU or memory prices of other machines there.
UNLISTED = "us-central2"


def _read(file: Path) -> Environment:
    result = [item for item in yaml_documents.load_path(file) if item.data.get("kind") == "Environment"]
    return documents.read_as(result[0], Environment)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_pools_have_published_prices(file: Path) -> None:
    spec = _read(file).spec
    unknown = {item.what for item in estimate_costs(spec) if item.unit_price is None}
    if spec.region == UNLISTED:
        assert not [name for name in unknown if name.startswith("v4-")]
    else:
        assert unknown == set()


def test_examples_cover_several_regions() -> None:
    assert {_read(file).spec.region for file in FILES} >= {"us-central1", "us-west4", UNLISTED}


def test_price_depends_on_the_region() -> None:
    spec = _read(EXAMPLES / "environments" / "triton" / "environment.yaml").spec
    here, there = (estimate_costs(spec.model_copy(update={"region": region})) for region in ("us-central1", "southamerica-east1"))
    dearer = [(one.hourly, other.hourly) for one, other in zip(here, there, strict=True) if one.hourly and other.hourly]
    assert dearer
    assert all(one < other for one, other in dearer)
