"""What is done with a whole environment: plan, apply, look, destroy; stage by stage, and again from wherever it stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.infra import troubles
from sliceworks.infra.adopting import adopt
from sliceworks.infra.finding import Finder
from sliceworks.infra.journal import Journal
from sliceworks.infra.names import Names
from sliceworks.infra.stages import stages
from sliceworks.infra.states import bring_down, in_bucket, open_state
from sliceworks.infra.terraform import StateLocked, Terraform, TerraformFailed
from sliceworks.infra.turns import taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.infra.programs import Program
    from sliceworks.infra.stages import Stage
    from sliceworks.infra.targets import Target
    from sliceworks.infra.terraform import Change
    from sliceworks.infra.workspaces import Workspace
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
T = TypeVar("T")
BOOTSTRAP = "0-bootstrap"


class Planned(NamedTuple):
    """What would change in a stage, what it has made so far, and Terraform's own words where they were asked for."""

    stage: Stage
    changes: list[Change]
    outputs: Object
    words: str


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

    def plan(self, *, in_words: bool = False) -> Iterator[Planned]:
        """What would change in each stage. What earlier stages have not made yet is taken for what it will be."""
        self.workspace.lay_out()
        known: dict[str, Object] = {}
        for stage in self.stages():
            terraform = self._terraform(stage, known)
            changes, words = terraform.plan_in_words() if in_words else (terraform.plan(), "")
            outputs = terraform.outputs()
            known[stage.name] = {**stage.expected, **outputs}
            yield Planned(stage, changes, outputs, words)

    def apply(self, begun: Callable[[Stage], Callable[[str], None]]) -> Iterator[tuple[Stage, list[Change], Object]]:
        """Make all stages, each with what the ones before it have made; a stage that is as it should be costs a look."""
        self.workspace.lay_out()
        names, automation = Names(self.environment), self.environment.spec.automation
        if not automation.create or names.state_bucket != automation.bucket:
            self.target.expect_bucket(names.state_bucket, self.environment.spec.project, self.environment.spec.region)
        known: dict[str, Object] = {}
        for stage in self.stages():
            report = begun(stage)
            terraform, (changes, outputs) = self._worked(stage, known, partial(Terraform.apply, report=report), report, making=True)
            if stage.name == BOOTSTRAP:
                self._open(stage, terraform, making=True)  # the bucket is there now: the state goes up
            known[stage.name] = outputs
            yield stage, changes, outputs

    def plan_alone(self, name: str) -> tuple[Stage, list[Change]]:
        """What would change in one stage; those before it must have been made."""
        stage, known = self._alone(name)
        return stage, self._terraform(stage, known).plan()

    def apply_alone(self, name: str, report: Callable[[str], None]) -> list[Change]:
        """Make one stage, and leave the others as they are."""
        stage, known = self._alone(name)
        return self._worked(stage, known, partial(Terraform.apply, report=report), report, making=True)[1][0]

    def unlock(self, name: str, lock: str) -> None:
        """Free the state of a stage that somebody who is gone has locked."""
        self.workspace.lay_out()
        self._free(self._named(name), {each.name: each.expected for each in self.stages()}, lock)

    def _free(self, stage: Stage, known: dict[str, Object], lock: str) -> None:
        """Terraform cannot free a state that was locked before it was first written: then the lock itself is removed."""
        try:
            self._terraform(stage, known).unlock(lock)
        except StateLocked:
            names = Names(self.environment)
            self.target.remove_object(names.state_bucket, f"{names.state_prefix}/{stage.name}/default.tflock", lock)

    def adopt(self, name: str, address: str) -> bool:
        """Take over one thing that is there and not in the state of its stage; False where there is none."""
        terraform = self._terraform(*self._alone(name))
        return bool(adopt(terraform, [address], lambda said: None, Finder(self.target)))

    def _named(self, name: str) -> Stage:
        found = next((each for each in self.stages() if each.name == name), None)
        if found is None:
            raise UsageError(f"there is no stage {name}", hint=f"stages: {', '.join(each.name for each in self.stages())}")
        return found

    def _alone(self, name: str) -> tuple[Stage, dict[str, Object]]:
        """A stage, and what those before it have made."""
        self.workspace.lay_out()
        stage = self._named(name)
        known: dict[str, Object] = {}
        for earlier in self.stages():
            if earlier.name in stage.takes.values():
                known[earlier.name] = self._terraform(earlier, known).outputs()
                if not known[earlier.name]:
                    raise SliceworksError(f"{earlier.name} is not made yet", hint="`sliceworks env apply` makes all stages")
        return stage, known

    def destroy(self, begun: Callable[[Stage], Callable[[str], None]]) -> Iterator[tuple[Stage, list[Change]]]:
        """Remove all stages, last to first; one that was never made is passed over."""
        self.workspace.lay_out()
        known = {stage.name: stage.expected for stage in self.stages()}
        for stage in reversed(self.stages()):
            report = begun(stage)
            yield stage, self._worked(stage, known, partial(_removed, report=report), report)[1]

    def names(self) -> Iterator[tuple[Stage, list[tuple[str, str]]]]:
        """What each stage has made: kinds and names. The stages must have been applied from here."""
        for stage in self.stages():
            yield stage, self._at(stage).names()

    def made(self, name: str) -> Object:
        """The outputs of one stage; nothing where it was never made."""
        stage = next(each for each in self.stages() if each.name == name)
        self.workspace.lay_out()
        known = {each.name: each.expected for each in self.stages()}
        return self._terraform(stage, known).outputs()

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

    def _terraform(self, stage: Stage, known: dict[str, Object], *, making: bool = False) -> Terraform:
        earlier = {output: known.get(other, {}).get(output) for output, other in stage.takes.items()}
        if not self.target.impersonates and "bootstrap" in {**stage.takes, **stage.variables}:
            earlier["bootstrap"] = {"service_account": None}
        self.workspace.write(stage, earlier)
        terraform = self._at(stage)
        self._open(stage, terraform, making=making)
        return terraform

    def _at(self, stage: Stage) -> Terraform:
        """Terraform in the folder of a stage, as it was left there."""
        environment = self.target.environment(self.workspace.folder)
        folder, target = self.workspace.stage(stage.name), self.target
        return Terraform(self.program, folder, environment, stage.name, target.patience, provider=target.provider)

    def _open(self, stage: Stage, terraform: Terraform, *, making: bool) -> None:
        """With its state. Only what makes something needs the bucket, and only the first stage makes it without one."""
        names = Names(self.environment)
        backend = self.target.backend(stage.name, names.state_bucket, names.state_prefix)
        missing = not making or stage.name == BOOTSTRAP
        open_state(terraform, backend, may_be_missing=missing)

    def _worked(
        self,
        stage: Stage,
        known: dict[str, Object],
        act: Callable[[Terraform], T],
        report: Callable[[str], None],
        *,
        making: bool = False,
    ) -> tuple[Terraform, T]:
        """Do something to a stage when it is our turn. A lock that a run of ours left when it was killed is freed first."""
        with taken(self.workspace.stage(stage.name), stage.name) as turn:

            def whole() -> tuple[Terraform, T]:
                terraform = replace(self._terraform(stage, known, making=making), holding=turn.handle)
                self._settle_doubts(terraform, report)
                return terraform, act(terraform)

            try:
                return whole()
            except TerraformFailed as error:
                turn.stays_locked = troubles.stays_locked(error.told)
                lock = turn.own_lock(error.told) if isinstance(error, StateLocked) else ""
                if not lock:
                    raise
                report("a run that was killed had locked the state: it is freed")
                self._free(stage, known, lock)
                return whole()

    def _settle_doubts(self, terraform: Terraform, report: Callable[[str], None]) -> None:
        """Take over what an earlier run made without knowing so, before anything else is done."""
        journal = Journal(terraform.folder)
        in_doubt = journal.in_doubt()
        if in_doubt:
            adopt(terraform, in_doubt, report, Finder(self.target))
            journal.keep([])


def _removed(terraform: Terraform, report: Callable[[str], None]) -> list[Change]:
    """Remove what a stage has. The first stage's state comes out of the bucket before that goes."""
    if not terraform.resources():
        return []
    if terraform.stage == BOOTSTRAP and in_bucket(terraform):
        bring_down(terraform)
    return terraform.destroy(report)
