"""The reference page of the slices controller names everything that there is."""

from __future__ import annotations

import re
from pathlib import Path

from sliceworks.base import duration
from sliceworks.base.metrics import Registry
from sliceworks.controllers.slices import settings, words
from sliceworks.controllers.slices.metrics import Metrics

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "slices-controller.md").read_text()


def test_every_setting_with_its_variable() -> None:
    for name, variable in settings.variables().items():
        row = next((line for line in PAGE.splitlines() if re.match(rf"\| .*`{name}`", line)), "")
        assert f"`{variable}`" in row, name


def test_the_defaults_are_true() -> None:
    defaults = settings.Settings()
    for name in ("node_min_lifespan", "suspended_grace", "time_limit", "creation_timeout", "deletion_delay"):
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}`")]
        assert duration.parse(row.split("|")[3].strip(" `")) == getattr(defaults, name), name


def test_every_metric() -> None:
    registry = Registry()
    Metrics(registry)
    names = re.findall(r"# TYPE (\S+)", registry.text())
    assert len(names) >= 9
    for name in names:
        assert f"`{name}`" in PAGE, name


def test_every_word_that_is_read_or_written() -> None:
    internal = {words.MANAGER_VALUE, words.FIELD_MANAGER, words.COMPONENT, words.LEASE, words.OWN, words.OLD_POOL_JOBSET_NAME}
    for name, word in vars(words).items():
        if (
            name.isupper()
            and isinstance(word, str)
            and word not in internal
            and not word.startswith(("jobset.sigs", "kueue.x", "batch."))
        ):
            short = word.rpartition("/")[2] if word.startswith(("cloud.google.com/", "google.com/")) else word
            assert short in PAGE or short.removeprefix("tpu-provisioner") in PAGE, name
