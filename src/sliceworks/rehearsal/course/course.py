"""A whole day on a twin: the environment is made, documents and models come, the scenario happens, load is tested, all is removed.

Steps of virtual time and of real time alternate; while a real one is under way the twin's time stands still. The same documents and
seed give the same record, but for what is measured.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from sliceworks.base import clock, collector, extras
from sliceworks.base.words import counted
from sliceworks.kube.client import Client
from sliceworks.rehearsal.course import checks
from sliceworks.rehearsal.course.aiming import aim, gateway
from sliceworks.rehearsal.course.aside import aside
from sliceworks.rehearsal.course.building import Builder
from sliceworks.rehearsal.course.costs import costs
from sliceworks.rehearsal.course.incidents import incidents
from sliceworks.rehearsal.course.leftovers import leftovers
from sliceworks.rehearsal.course.loading import Bench
from sliceworks.rehearsal.course.reasons import asking
from sliceworks.rehearsal.course.services import deploy, withdraw
from sliceworks.rehearsal.course.steps import Steps
from sliceworks.rehearsal.course.telling import Nobody
from sliceworks.rehearsal.course.watch import Watch
from sliceworks.rehearsal.day.record import Day, Measured
from sliceworks.rehearsal.drill import Drill
from sliceworks.rehearsal.installed import kept
from sliceworks.rehearsal.product import Wants, controllers
from sliceworks.rehearsal.rehearse import apply_document
from sliceworks.rehearsal.scenarios import Happening, later_documents, plan, play
from sliceworks.rehearsal.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from sliceworks.rehearsal.course.program import Program
    from sliceworks.rehearsal.course.telling import Teller
    from sliceworks.rehearsal.day.record import Check, LoadRun
    from sliceworks.rehearsal.scenarios import Step as Planned
    from sliceworks.twin.cluster import Cluster
    from sliceworks.twin.store.entries import Change
    from sliceworks.twin.store.store import Store

ENVIRONMENT, DOCUMENTS, MODELS, DAY, LOAD, DESTROY = "environment", "documents", "models", "day", "load-test", "destroy"
STEPS = (ENVIRONMENT, DOCUMENTS, MODELS, DAY, LOAD, DESTROY)
_BEFORE = 3600.0
"""An environment is made in the hour before the scenario begins, so that its times are those of the clock."""
_USUAL = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a day is rehearsed. `work` is an empty folder for what Terraform and load tests write."""

    work: Path
    seed: int = 0
    seconds: float = _USUAL
    skipped: frozenset[str] = frozenset()
    keep: bool = False
    """Whether everything is left as it is in the end: nothing is removed."""
    start: datetime | None = None
    """When the scenario begins, whatever it says itself."""
    drill: float | None = None
    """Some program dies every so many seconds."""


def rehearse_day(program: Program, options: Options, teller: Teller | None = None, store: Store | None = None) -> Day:
    """Rehearse it; `store` is where the twin keeps what it has, when somebody is to look at it afterwards."""
    course = _Course(program, options, teller or Nobody(), store)
    course.check()
    with collector.rested():
        return clock.run(course.run(), virtual=True, seed=options.seed, start=course.start)


@dataclass(slots=True)
class _Course:
    program: Program
    options: Options
    teller: Teller
    store: Store | None
    opened: float = 0.0
    terraform: str = ""
    planned: list[Planned] = field(default_factory=list)
    runs: list[LoadRun] = field(default_factory=list)

    @property
    def start(self) -> datetime | None:
        """What the clock shows when the rehearsal begins."""
        scenario = self.program.scenario
        begin = self.options.start or (scenario.spec.start if scenario is not None else None)
        return begin - timedelta(seconds=_BEFORE) if begin is not None and self.program.environment is not None else begin

    def check(self) -> None:
        """Whether the files are good and this machine has what the steps need: known before the first of them."""
        scenario = self.program.scenario
        planned = plan(scenario, self.program.folder, Random(self.options.seed)) if scenario is not None else []
        self.planned = [each for each in planned if each.at <= self.options.seconds]
        wanted: dict[str, str] = {}
        if self.program.load_tests and LOAD not in self.options.skipped:
            wanted["load tests need"] = "load"
        if self.program.environment is None or ENVIRONMENT in self.options.skipped:
            extras.check(wanted)
            return
        from sliceworks.infra import programs, targets

        if not os.environ.get(targets.PROVIDER):
            wanted["environments on a twin need"] = "terraform"
        extras.check(wanted)
        self.terraform = programs.find().name

    async def run(self) -> Day:
        from sliceworks.twin.cluster import Cluster

        began, wants = clock.stopwatch(), self._wants()
        drill = Drill(self.options.drill, self.options.seed) if self.options.drill else None
        async with (
            Cluster(self.store, config_connector=wants.config_connector, between=drill.between if drill else None) as cluster,
            kept(cluster) as keeper,
            controllers(cluster, wants) as beside,
            drill.going_on(cluster, lambda: [*beside, *keeper.mortals()]) if drill else nullcontext(),
        ):
            watch, timeline, start = Watch(self.teller.passing), Timeline(), clock.timestamp()
            cluster.store.subscribe(watch.observe)
            cluster.store.subscribe(_when_not_held(timeline))
            timeline.begin()
            steps = Steps(self.teller, lambda: watch.now, self.options.skipped)
            async with Client(cluster.transport()) as client, asking(client, watch.jobs):
                await self._steps(cluster, client, steps, timeline)
            day = self._day(watch, steps, timeline, start, leftovers(cluster.store))
        return replace(day, measured=self._measured(steps, began), deaths=tuple(drill.deaths) if drill else ())

    def _wants(self) -> Wants:
        """What runs beside the twin. Controllers that the environment brings run because they are installed."""
        scenario, environment = self.program.scenario, self.program.environment
        later = later_documents(scenario, self.program.folder) if scenario is not None else []
        wants = Wants.of([*self.program.objects, *later], scenario)
        if environment is None:
            return wants
        return replace(
            wants,
            graphs=wants.graphs and not environment.spec.addons.graphs,
            config_connector=wants.config_connector or environment.spec.self_service is not None,
        )

    async def _steps(self, cluster: Cluster, client: Client, steps: Steps, timeline: Timeline) -> None:
        builder = self._builder(cluster, client)
        if builder is not None and steps.wants(ENVIRONMENT, "Make the environment with Terraform"):
            await self._environment(steps, builder)
        why = "the environment was not made" if steps.failed(ENVIRONMENT) else ""
        if self.program.objects and steps.wants(DOCUMENTS, "Apply the documents", why):
            await self._documents(client, steps, timeline)
        if self.program.services and steps.wants(MODELS, "Deploy the models", why):
            await self._models(client, steps)
        if builder is not None:
            await clock.sleep(max(0.0, _BEFORE - steps.now()))
        self.opened = steps.now()
        if steps.wants(DAY, "Let the day pass", why):
            await self._pass(client, steps)
        if self.program.load_tests and steps.wants(LOAD, "Test the gateway under load"):
            await self._load(steps)
        if builder is not None and steps.wants(DESTROY, "Remove everything", self._why_not_destroy()):
            await self._destroy(client, steps, builder)

    def _why_not_destroy(self) -> str:
        if ENVIRONMENT in self.options.skipped:
            return "there is no environment"
        return "everything is kept" if self.options.keep else ""

    def _builder(self, cluster: Cluster, client: Client) -> Builder | None:
        environment, folder = self.program.environment, self.program.folder
        if environment is None:
            return None
        return Builder(environment, folder, self.options.work / "terraform", cluster, client, self.teller.said)

    async def _environment(self, steps: Steps, builder: Builder) -> None:
        async with steps.step(ENVIRONMENT, "Make the environment with Terraform") as step:
            built = await builder.apply()
            step.told = f"{built.resources} resources in {built.stages} stages, {built.objects} objects in the cluster"

    async def _documents(self, client: Client, steps: Steps, timeline: Timeline) -> None:
        async with steps.step(DOCUMENTS, "Apply the documents") as step:
            for document in self.program.objects:
                outcome = await apply_document(client, document, timeline, [])
                if outcome.result == "refused":
                    step.problems.append(f"{document.place()}: {document.name}: {outcome.reason}")
            step.told = counted(len(self.program.objects), "object")

    async def _models(self, client: Client, steps: Steps) -> None:
        async with steps.step(MODELS, "Deploy the models") as step:
            await deploy(client, self.program.services, self.teller.said)
            step.told = counted(len(self.program.services), "model service")

    async def _pass(self, client: Client, steps: Steps) -> None:
        happenings: list[Happening] = []
        async with steps.step(DAY, "Let the day pass") as step:
            await play(self.planned, client, clock.sleep, told=happenings.append)
            await clock.sleep(max(0.0, self.options.seconds - (steps.now() - self.opened)))
            step.problems += [f"{each.what}: {each.refused}" for each in happenings if each.refused]
            step.told = f"{counted(len(happenings), 'thing')} happened"

    async def _load(self, steps: Steps) -> None:
        async with steps.step(LOAD, "Test the gateway under load") as step:
            work = self.options.work / "load"
            work.mkdir()
            tests = aim(self.program.load_tests, self.program.services)
            bench = Bench(gateway(self.program.gateways, tests), work, self.teller.said)
            self.runs = await aside(lambda: bench.run(tests, self.program.folder), bench.stop)
            step.told = counted(len(self.runs), "load test")

    async def _destroy(self, client: Client, steps: Steps, builder: Builder) -> None:
        async with steps.step(DESTROY, "Remove everything") as step:
            await withdraw(client, self.program, self.teller.said)
            built = await builder.destroy()
            step.told = f"{built.resources} resources in {built.stages} stages, {built.objects} objects in the cluster"

    def _day(self, watch: Watch, steps: Steps, timeline: Timeline, start: str, left: tuple[str, ...]) -> Day:
        now, folder = watch.now, self.program.folder
        slices = watch.machines.lives(now)
        day = Day(
            folder.resolve().name,
            str(folder),
            self.options.seed,
            start,
            now,
            self.opened,
            tuple(steps.done),
            tuple(timeline.moments),
            watch.chips.usage(),
            watch.chips.capacity(),
            watch.jobs.lives(now),
            slices,
            watch.things.lives(now),
            costs(watch, now),
            incidents(watch.blows.all, watch.jobs.turns, watch.machines.troubles, slices),
            left,
            Measured(load_runs=tuple(self.runs)),
        )
        return replace(day, steps=tuple(replace(step, checks=self._checks(step.name, day)) for step in day.steps))

    def _checks(self, name: str, day: Day) -> tuple[Check, ...]:
        """What is expected of a step; of one that was left out, or of a day that was cut short, nothing is."""
        scenario = self.program.scenario
        if scenario is None or self.options.seconds < scenario.spec.duration:
            return ()
        if any(step.name == name and step.result == "skipped" for step in day.steps):
            return ()
        return tuple(
            checks.check(each, day, self.program.place("spec", "expect", number))
            for number, each in enumerate(scenario.spec.expect)
            if (of if (of := checks.step_of(each)) in {step.name for step in day.steps} else DAY) == name
        )

    def _measured(self, steps: Steps, began: float) -> Measured:
        return Measured(
            round(clock.stopwatch() - began, 3),
            {name: round(each, 3) for name, each in steps.seconds.items()},
            self.terraform,
            tuple(self.runs),
        )


def _when_not_held(timeline: Timeline) -> Callable[[Change], None]:
    """What real programs do has no order of its own: it is told as a step, not moment by moment."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, clock.VirtualLoop)

    def observe(change: Change) -> None:
        if not loop.is_held:
            timeline.observe(change)

    return observe
