"""The folder in which Terraform works on an environment: the modules, and for each stage its variables and its state.

$FOLDER/
├── modules/  stages/     our own, as they come along
└── stages/2-cluster/
    ├── environment.auto.tfvars.json    what the document says
    ├── earlier.auto.tfvars.json        what earlier stages made
    └── backend.tf.json                 where the state lies
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.infra import manager
from sliceworks.infra.contents import TERRAFORM, belonging

if TYPE_CHECKING:
    from sliceworks.infra.stages import Stage
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]


def modules() -> Path:
    """Where the modules and stages come from: beside this code when installed, in the repository when worked on."""
    packed = Path(__file__).parent / "hcl"
    return packed if packed.is_dir() else Path(__file__).parents[3] / "terraform"


@dataclass(frozen=True, slots=True)
class Workspace:
    """One environment's folder, for its owner alone: a state may name what others should not see."""

    folder: Path

    def lay_out(self) -> None:
        """Bring the modules and stages up to date; what Terraform put beside them stays."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        source = modules()
        for file in belonging(source, TERRAFORM):
            _copy(file, self.folder / file.relative_to(source))

    def stage(self, name: str) -> Path:
        """The folder of a stage."""
        return self.folder / "stages" / name

    def write(self, stage: Stage, earlier: Object) -> Path:
        """A stage's variables; returns its folder."""
        folder = self.stage(stage.name)
        _put(folder / "environment.auto.tfvars.json", {**stage.variables, **earlier})
        return folder

    def write_for_builds(self, stage: Stage) -> None:
        """A stage's variables, and a backend in a bucket whose name each build gives. A build acts as nobody but itself."""
        itself = {"bootstrap": {"service_account": None}} if "bootstrap" in {**stage.variables, **stage.takes} else {}
        _put(self.stage(stage.name) / "environment.auto.tfvars.json", {**stage.variables, **itself})
        _put(self.stage(stage.name) / "backend.tf.json", {"terraform": {"backend": {"gcs": {}}}})


def write_deployments(folder: Path, environment: Environment) -> None:
    """What Infrastructure Manager takes: a folder for each deployment, with the modules in it, and the command lines."""
    source = modules()
    for stage in manager.deployments(environment):
        home = folder / stage.name
        home.mkdir(parents=True, exist_ok=True)
        for file in belonging(source, TERRAFORM, f"stages/{stage.name}"):
            (home / file.name).write_text(manager.standalone(file.read_text()))
        for name in manager.modules_of((home / "main.tf").read_text()):
            for file in belonging(source, TERRAFORM, f"modules/{name}"):
                _copy(file, home / file.relative_to(source))
        (home / manager.INPUTS).write_text(manager.inputs(environment, stage))
    for name, text in manager.scripts(environment).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def _copy(file: Path, target: Path) -> None:
    if not target.exists() or target.read_bytes() != file.read_bytes():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _put(file: Path, data: Object) -> None:
    text = orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if not file.exists() or file.read_bytes() != text:
        file.write_bytes(text)
