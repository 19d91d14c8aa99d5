"""The reference page of the slices controller is complete."""

from __future__ import annotations

import re
from pathlib import Path

from sliceworks.base import duration
from sliceworks.base.metrics import Registry
from sliceworks.controllers.slices import settings, well_known
from sliceworks.controllers.slices.telemetry import Metrics

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "slices-controller.md").read_text()


def test_every_setting_is_documented() -> None:
    for name, variable in settings.variables().items():
        row = next((line for line in PAGE.splitlines() if re.match(rf"\| .*`{name}`", line)), "")
        assert f"`{variable}`" in row, name


def test_documented_defaults_are_correct() -> None:
    defaults = settings.Settings()
    for name in ("node_min_lifespan", "suspended_grace", "time_limit", "creation_timeout", "deletion_delay"):
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}`")]
        assert duration.parse(row.split("|")[3].strip(" `")) == getattr(defaults, name), name


def test_every_metric_is_documented() -> None:
    registry = Registry()
    Metrics(registry)
    names = re.findall(r"# TYPE (\S+)", registry.render())
    assert len(names) >= 9
    for name in names:
        assert f"`{name}`" in PAGE, name


def test_every_label_and_annotation_is_documented() -> None:
    internal = {
        well_known.MANAGER_VALUE,
        well_known.FIELD_MANAGER,
        well_known.COMPONENT,
        well_known.LEASE,
        well_known.OWN,
        well_known.OLD_POOL_JOBSET_NAME,
    }
    for name, word in vars(well_known).items():
        if (
            name.isupper()
            and isinstance(word, str)
            and word not in internal
            and not word.startswith(("jobset.sigs", "kueue.x", "batch."))
        ):
            short = word.rpartition("/")[2] if word.startswith(("cloud.google.com/", "google.com/")) else word
            assert short in PAGE or short.removeprefix("tpu-provisioner") in PAGE, name
