"""What is done with a whole environment: plan, apply, look, destroy; stage by stage, and again from wherever it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.infra.names import Names
from sliceworks.infra.stages import stages
from sliceworks.infra.terraform import Terraform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.infra.programs import Program
    from sliceworks.infra.stages import Stage
    from sliceworks.infra.targets import Target
    from sliceworks.infra.terraform import Change
    from sliceworks.infra.workspaces import Workspace
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Site:
    """An environment at a place: its document, where it is made, and the folder that Terraform works in."""

    environment: Environment
    target: Target
    workspace: Workspace
    program: Program

    def stages(self) -> tuple[Stage, ...]:
        """Its stages, first to last."""
        return stages(self.environment)

    def plan(self, *, destroy: bool = False) -> Iterator[tuple[Stage, list[Change]]]:
        """What would change in each stage. What earlier stages have not made yet is taken for what it will be."""
        self.workspace.lay_out()
        known: dict[str, Object] = {}
        for stage in self.stages():
            terraform = self._terraform(stage, known)
            yield stage, terraform.plan(destroy=destroy)
            known[stage.name] = {**stage.expected, **terraform.outputs()}

    def apply(self, begun: Callable[[Stage], Callable[[str], None]]) -> Iterator[tuple[Stage, list[Change], Object]]:
        """Make all stages, each with what the ones before it have made; a stage that is as it should be costs a look."""
        self.workspace.lay_out()
        known: dict[str, Object] = {}
        for stage in self.stages():
            report = begun(stage)
            terraform = self._terraform(stage, known)
            changes = terraform.apply(report)
            known[stage.name] = terraform.outputs()
            yield stage, changes, known[stage.name]

    def plan_alone(self, name: str) -> tuple[Stage, list[Change]]:
        """What would change in one stage; those before it must have been made."""
        stage, terraform = self._alone(name)
        return stage, terraform.plan()

    def apply_alone(self, name: str, report: Callable[[str], None]) -> list[Change]:
        """Make one stage, and leave the others as they are."""
        return self._alone(name)[1].apply(report)

    def _alone(self, name: str) -> tuple[Stage, Terraform]:
        self.workspace.lay_out()
        stage = next(each for each in self.stages() if each.name == name)
        known: dict[str, Object] = {}
        for earlier in self.stages():
            if earlier.name in stage.takes.values():
                known[earlier.name] = self._terraform(earlier, known).outputs()
                if not known[earlier.name]:
                    raise SliceworksError(f"{earlier.name} is not made yet", hint="`sliceworks env apply` makes all stages")
        return stage, self._terraform(stage, known)

    def destroy(self, begun: Callable[[Stage], Callable[[str], None]]) -> Iterator[tuple[Stage, list[Change]]]:
        """Remove all stages, last to first; one that was never made is passed over."""
        self.workspace.lay_out()
        known = {stage.name: stage.expected for stage in self.stages()}
        for stage in reversed(self.stages()):
            report = begun(stage)
            terraform = self._terraform(stage, known)
            yield stage, terraform.apply(report, destroy=True) if terraform.resources() else []

    def outputs(self, *, drift: bool = False) -> Iterator[tuple[Stage, Object, dict[str, str]]]:
        """What each stage has made: its outputs, and its resources by address, each with what somebody else did to it."""
        self.workspace.lay_out()
        known = {stage.name: stage.expected for stage in self.stages()}
        for stage in self.stages():
            terraform = self._terraform(stage, known)
            outputs = terraform.outputs()
            known[stage.name] = {**stage.expected, **outputs}
            found = dict.fromkeys(terraform.resources(), "")
            found |= {each.address: each.action for each in (terraform.drift() if drift and found else [])}
            yield stage, outputs, found

    def _terraform(self, stage: Stage, known: dict[str, Object]) -> Terraform:
        names = Names(self.environment)
        earlier = {output: known.get(other, {}).get(output) for output, other in stage.takes.items()}
        if not self.target.impersonates and "bootstrap" in {**stage.takes, **stage.variables}:
            earlier["bootstrap"] = {"service_account": None}
        folder = self.workspace.write(stage, earlier, self.target, (names.state_bucket, names.state_prefix))
        terraform = Terraform(self.program, folder, self.target.environment(self.workspace.folder), stage.name)
        terraform.init(installs=self.target.installs)
        return terraform
