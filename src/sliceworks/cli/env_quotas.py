"""The quotas part of `sliceworks env check`: asked where there are credentials; where not, why not is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base import progress

if TYPE_CHECKING:
    from sliceworks.infra.checks import Finding
    from sliceworks.infra.targets import Target
    from sliceworks.specs.environment import Environment


def quota_findings(environment: Environment, skipped: tuple[str, ...], file: Path, *, twin: bool) -> list[tuple[Finding, str]]:
    """What the region has too little of, each with its place."""
    from sliceworks.base import yamls
    from sliceworks.infra import quotas

    if quotas.NAME in skipped:
        return []
    try:
        found = quotas.check(environment, _target(twin=twin), known=twin)
    except quotas.NotAsked as error:
        progress.say(f"{error.message}{f': {error.hint}' if error.hint else ''}")
        return []
    if not found:
        return []
    document = next(each for each in yamls.load_path(file) if each.data.get("kind") == "Environment")
    return [(each, document.place(*each.path)) for each in found]


def _target(*, twin: bool) -> Target:
    from sliceworks.infra.targets import Target, TwinTarget

    if not twin:
        return Target()
    from sliceworks.cli.connections import running_twin

    state = running_twin()
    return TwinTarget(address=state.cloud, token=(Path(state.directory) / "token").read_text().strip())
