"""An approved plan in one file: the plan file of each stage, and the changes that were shown. `env plan --plan-out` writes it."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import files
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.infra.stack import StagePlan
from sliceworks.infra.terraform import SAVED_PLAN, Change

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sliceworks.infra.stack import Stack

Object = dict[str, Any]
_MANIFEST = "plan.json"


def write_plan(file: Path, site: Stack, plans: Iterable[StagePlan]) -> None:
    """Write the plans of all stages. The file is private: plans contain values of the state."""
    stages: Object = {}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for plan in plans:
            changes = [asdict(change) for change in plan.changes]
            stages[plan.stage.name] = {"changes": changes, "inputs": plan.inputs, "outputs": plan.outputs}
            archive.write(site.workspace.stage(plan.stage.name) / SAVED_PLAN, f"{plan.stage.name}.tfplan")
        archive.writestr(_MANIFEST, orjson.dumps({"document": _digest(site), "stages": stages}))
    files.write_atomic(file, packed.getvalue(), mode=files.PRIVATE_MODE)


def read_plan(file: Path, site: Stack) -> dict[str, StagePlan]:
    """Put the plan files in the folders of the stages; returns the plans by stage. Raises if the document changed since."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest: Object = orjson.loads(archive.read(_MANIFEST))
            if manifest["document"] != _digest(site):
                raise SliceworksError(
                    f"{file}: the document changed since this plan was written", hint="`sliceworks env plan --plan-out FILE`"
                )
            site.workspace.copy_modules()
            plans = {}
            for stage in site.stages():
                entry = manifest["stages"][stage.name]
                target = site.workspace.stage(stage.name) / SAVED_PLAN
                files.write_atomic(target, archive.read(f"{stage.name}.tfplan"), mode=files.PRIVATE_MODE)
                changes = [Change(**change) for change in entry["changes"]]
                plans[stage.name] = StagePlan(stage, changes, entry["outputs"], "", entry["inputs"])
            return plans
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file} is not a plan of this program", hint="`sliceworks env plan --plan-out FILE`") from error


def _digest(site: Stack) -> str:
    """Identifies the compiled document and its target."""
    stages = [asdict(stage) for stage in site.stages()]
    text = orjson.dumps([site.environment.model_dump(mode="json"), stages, type(site.target).__name__], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()
