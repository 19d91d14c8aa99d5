"""Runs a simulation: environment, documents, models, scenario, load tests, removal; returns its record."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from sliceworks.base import clock, imports, memory
from sliceworks.base.loops import VirtualLoop
from sliceworks.base.names import pluralize
from sliceworks.catalog.labels import DEFAULT_RUN_SECONDS
from sliceworks.kube.client import Client
from sliceworks.platform.controller_host import ControllerRequirements, run_controllers, run_installed
from sliceworks.platform.document_set import resolve_gateway, resolve_load_tests
from sliceworks.rehearsal.basic_run import apply_document
from sliceworks.rehearsal.drill import Drill
from sliceworks.rehearsal.events import EventResult, load_event_documents, plan_events, run_events
from sliceworks.rehearsal.record import Measurements, RunRecord
from sliceworks.rehearsal.simulation import expectations
from sliceworks.rehearsal.simulation.chip_observer import compute_costs
from sliceworks.rehearsal.simulation.deployment import EnvironmentDeployer, deploy_models, remove_documents
from sliceworks.rehearsal.simulation.incidents import find_incidents
from sliceworks.rehearsal.simulation.job_observer import explain_pending_jobs
from sliceworks.rehearsal.simulation.load_test import LoadTestRunner
from sliceworks.rehearsal.simulation.observer import Observer
from sliceworks.rehearsal.simulation.real_time import run_in_thread
from sliceworks.rehearsal.simulation.steps import (
    DESTROY,
    DOCUMENTS,
    ENVIRONMENT,
    LOAD_TEST,
    MODELS,
    SCENARIO,
    NullReporter,
    StepRunner,
)
from sliceworks.rehearsal.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from sliceworks.platform.document_set import DocumentSet
    from sliceworks.rehearsal.events import PlannedEvent as Planned
    from sliceworks.rehearsal.record import CheckResult, LoadTestRecord
    from sliceworks.rehearsal.simulation.steps import ProgressReporter
    from sliceworks.twin.cluster import Cluster
    from sliceworks.twin.store.store import Store
    from sliceworks.twin.store.watch_cache import Change

_CLOUD = "cloud."
_PROJECT_RECORDS = frozenset(
    {"operations", "settings", "services", "policies", "faults", "jobs", "uploads", "identityPools", "serviceAgents", "tokens"}
)
"""Collections that stay with a project at no cost, as in Google Cloud: settings, operations, service agents, access tokens."""


def find_leftovers(store: Store) -> tuple[str, ...]:
    """Billable resources that are left in the twin's cloud, as `service/kind name`."""
    return tuple(
        f"{resource.removeprefix(_CLOUD)} {entry.name}"
        for resource in sorted(store.resources())
        if resource.startswith(_CLOUD) and not _is_project_record(resource.removeprefix(_CLOUD))
        for entry in store.scan(resource)
        if not entry.object().get("body", {}).get("deleted")  # Google keeps a deleted custom role for a week
    )


def _is_project_record(resource: str) -> bool:
    return resource == "serviceusage/projects" or resource.rpartition("/")[2] in _PROJECT_RECORDS


_LEAD_TIME = 3600.0
"""The environment is created in the hour before the scenario starts, so that the scenario starts on time."""

_DEFAULT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a simulation. `work` is an empty folder for files of Terraform and load tests."""

    work: Path
    seed: int = 0
    seconds: float = _DEFAULT_SECONDS
    skipped: frozenset[str] = frozenset()
    keep: bool = False
    """Skip the destroy step."""
    start: datetime | None = None
    """Start time of the scenario; overrides its own."""
    drill: float | None = None
    """Seconds between outages; None for no drill."""


def simulate(
    program: DocumentSet, options: Options, reporter: ProgressReporter | None = None, store: Store | None = None
) -> RunRecord:
    """Run the documents on a twin in virtual time; pass `store` to inspect the twin's objects afterwards."""
    simulation = _Simulation(program, options, reporter or NullReporter(), store)
    simulation.check()
    with memory.reduced_gc():
        return clock.run(simulation.run(), virtual=True, seed=options.seed, start=simulation.start)


@dataclass(slots=True)
class _Simulation:
    program: DocumentSet
    options: Options
    reporter: ProgressReporter
    store: Store | None
    scenario_start: float = 0.0
    terraform: str = ""
    planned: list[Planned] = field(default_factory=list)
    runs: list[LoadTestRecord] = field(default_factory=list)

    @property
    def start(self) -> datetime | None:
        """Twin time at the start of the simulation."""
        scenario = self.program.scenario
        begin = self.options.start or (scenario.spec.start if scenario is not None else None)
        return begin - timedelta(seconds=_LEAD_TIME) if begin is not None and self.program.environment is not None else begin

    def check(self) -> None:
        """Read all files and check the required extras before the first step; raises on problems."""
        scenario = self.program.scenario
        planned = plan_events(scenario, self.program.folder, Random(self.options.seed)) if scenario is not None else []
        self.planned = [item for item in planned if item.at <= self.options.seconds]
        extras: dict[str, str] = {}
        if self.program.load_tests and LOAD_TEST not in self.options.skipped:
            extras["load tests need"] = "load"
        if self.program.environment is None or ENVIRONMENT in self.options.skipped:
            imports.require_extras(extras)
            return
        from sliceworks.infra import stack, target

        if not os.environ.get(target.PROVIDER):
            extras["environments on a twin need"] = "terraform"
        imports.require_extras(extras)
        self.terraform = stack.find_terraform().name

    async def run(self) -> RunRecord:
        from sliceworks.twin.cluster import Cluster

        start_time, requirements = clock.real_perf_counter(), self._requirements()
        drill = Drill(self.options.drill, self.options.seed) if self.options.drill else None
        async with (
            Cluster(
                self.store,
                config_connector=requirements.config_connector,
                job_seconds=DEFAULT_RUN_SECONDS,
                between=drill.between if drill else None,
            ) as cluster,
            run_installed(cluster) as hosted,
            run_controllers(cluster, requirements) as controllers,
            drill.active(cluster, lambda: [*controllers, *hosted.list_restartables()]) if drill else nullcontext(),
        ):
            observer, timeline, start = Observer(self.reporter.tick), Timeline(), clock.timestamp()
            cluster.store.subscribe(observer.observe)
            cluster.store.subscribe(_observe_unless_held(timeline))
            timeline.begin()
            steps = StepRunner(self.reporter, lambda: observer.now, self.options.skipped)
            async with Client(cluster.transport()) as client, explain_pending_jobs(client, observer.jobs):
                await self._steps(cluster, client, steps, timeline)
            record = self._record(observer, steps, timeline, start, find_leftovers(cluster.store))
        return replace(record, measured=self._measured(steps, start_time), outages=tuple(drill.outages) if drill else ())

    def _requirements(self) -> ControllerRequirements:
        """The controllers to run beside the twin; those that the environment installs run from their Deployments."""
        scenario, environment = self.program.scenario, self.program.environment
        event_documents = load_event_documents(scenario, self.program.folder) if scenario is not None else []
        requirements = ControllerRequirements.of([*self.program.objects, *event_documents], scenario)
        if environment is None:
            return requirements
        return replace(
            requirements,
            graphs=requirements.graphs and not environment.spec.addons.graphs,
            config_connector=requirements.config_connector or environment.spec.self_service is not None,
        )

    async def _steps(self, cluster: Cluster, client: Client, steps: StepRunner, timeline: Timeline) -> None:
        deployer = self._deployer(cluster, client)
        if deployer is not None and steps.should_run(ENVIRONMENT):
            await self._environment(steps, deployer)
        skip_reason = "the environment was not created" if steps.failed(ENVIRONMENT) else ""
        if self.program.objects and steps.should_run(DOCUMENTS, skip_reason):
            await self._documents(client, steps, timeline)
        if self.program.services and steps.should_run(MODELS, skip_reason):
            await self._models(cluster, client, steps)
        if deployer is not None:
            await clock.sleep(max(0.0, _LEAD_TIME - steps.now()))
        self.scenario_start = steps.now()
        if steps.should_run(SCENARIO, skip_reason):
            await self._run_scenario(client, steps)
        if self.program.load_tests and steps.should_run(LOAD_TEST):
            await self._run_load_tests(steps)
        if deployer is not None and steps.should_run(DESTROY, self._why_not_destroy()):
            await self._destroy(client, steps, deployer)

    def _why_not_destroy(self) -> str:
        if ENVIRONMENT in self.options.skipped:
            return "no environment was created"
        return "--keep is set" if self.options.keep else ""

    def _deployer(self, cluster: Cluster, client: Client) -> EnvironmentDeployer | None:
        environment, folder = self.program.environment, self.program.folder
        if environment is None:
            return None
        return EnvironmentDeployer(environment, folder, self.options.work / "terraform", cluster, client, self.reporter.report)

    async def _environment(self, steps: StepRunner, deployer: EnvironmentDeployer) -> None:
        async with steps.step(ENVIRONMENT) as step:
            step.summary = str(await deployer.apply())

    async def _documents(self, client: Client, steps: StepRunner, timeline: Timeline) -> None:
        async with steps.step(DOCUMENTS) as step:
            for document in self.program.objects:
                outcome = await apply_document(client, document, timeline, [])
                if outcome.result == "refused":
                    step.problems.append(f"{document.place()}: {document.name}: {outcome.reason}")
            step.summary = pluralize(len(self.program.objects), "object")

    async def _models(self, cluster: Cluster, client: Client, steps: StepRunner) -> None:
        async with steps.step(MODELS) as step:
            await deploy_models(cluster, client, self.program.services, self.reporter.report)
            step.summary = pluralize(len(self.program.services), "model service")

    async def _run_scenario(self, client: Client, steps: StepRunner) -> None:
        results: list[EventResult] = []
        async with steps.step(SCENARIO, self.options.seconds) as step:
            await run_events(self.planned, client, clock.sleep, on_result=results.append)
            await clock.sleep(max(0.0, self.options.seconds - (steps.now() - self.scenario_start)))
            step.problems += [f"{result.description}: {result.refused}" for result in results if result.refused]
            step.summary = pluralize(len(results), "event")

    async def _run_load_tests(self, steps: StepRunner) -> None:
        async with steps.step(LOAD_TEST) as step:
            work = self.options.work / "load"
            work.mkdir()
            tests = resolve_load_tests(self.program.load_tests, self.program.services)
            runner = LoadTestRunner(resolve_gateway(self.program.gateways, tests), work, self.reporter.report)
            self.runs = await run_in_thread(lambda: runner.run(tests, self.program.folder), runner.stop)
            step.summary = pluralize(len(self.runs), "load test")

    async def _destroy(self, client: Client, steps: StepRunner, deployer: EnvironmentDeployer) -> None:
        async with steps.step(DESTROY) as step:
            await remove_documents(client, self.program, self.reporter.report)
            step.summary = str(await deployer.destroy())

    def _record(self, observer: Observer, steps: StepRunner, timeline: Timeline, start: str, left: tuple[str, ...]) -> RunRecord:
        now, folder = observer.now, self.program.folder
        slices = observer.machines.records(now)
        record = RunRecord(
            folder.resolve().name,
            str(folder),
            self.options.seed,
            start,
            now,
            self.scenario_start,
            tuple(steps.done),
            tuple(timeline.entries),
            observer.chips.usage(),
            observer.chips.capacity(),
            observer.jobs.records(now),
            slices,
            observer.instances.records(now),
            compute_costs(observer, now),
            find_incidents(observer.disruptions.all, observer.jobs.events, observer.machines.failures, slices),
            left,
            Measurements(load_runs=tuple(self.runs)),
        )
        return replace(record, steps=tuple(replace(step, checks=self._checks(step.name, record)) for step in record.steps))

    def _checks(self, name: str, run_record: RunRecord) -> tuple[CheckResult, ...]:
        """Check the expectations of a step; none for a skipped step or a shortened run."""
        scenario = self.program.scenario
        if scenario is None or self.options.seconds < scenario.spec.duration:
            return ()
        if any(step.name == name and step.result == "skipped" for step in run_record.steps):
            return ()
        step_names = {step.name for step in run_record.steps}
        return tuple(
            expectations.check(expectation, run_record, self.program.place("spec", "expect", number))
            for number, expectation in enumerate(scenario.spec.expect)
            if (checked_after if (checked_after := expectations.step_of(expectation)) in step_names else SCENARIO) == name
        )

    def _measured(self, steps: StepRunner, started: float) -> Measurements:
        return Measurements(
            round(clock.real_perf_counter() - started, 3),
            {name: round(seconds, 3) for name, seconds in steps.seconds.items()},
            self.terraform,
            tuple(self.runs),
        )


def _observe_unless_held(timeline: Timeline) -> Callable[[Change], None]:
    """Ignore changes while real programs run: their order is not deterministic."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)

    def observe(change: Change) -> None:
        if not loop.is_held:
            timeline.observe(change)

    return observe
