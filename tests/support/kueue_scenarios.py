"""Random scenarios for Kueue: nested cohorts, queues, flavors, and jobs that are submitted and deleted. One seed, one scenario.

The jobs of a scenario have different priorities where a queue may preempt; otherwise Kueue itself would choose at random.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]
STEPS = 10
_RESOURCES = (("cpu",), ("cpu",), ("cpu", "memory"))


@dataclass(slots=True)
class Job:
    """One job: its queue, its number of pods and the requests of each."""

    name: str
    queue: str
    pods: int
    requests: dict[str, int]
    priority: int


@dataclass(slots=True)
class Scenario:
    """Queues as `name → spec`, with flavors and cohorts by their short names, and the actions of each step."""

    seed: int
    flavors: list[str]
    cohorts: dict[str, Obj]
    queues: dict[str, Obj]
    steps: list[Job | str] = field(default_factory=list)


def generate(seed: int) -> Scenario:
    """Generate the scenario of a seed."""
    dice = random.Random(seed)
    resources = dice.choice(_RESOURCES)
    flavors = ["f1", "f2", "f3"][: dice.randint(1, 3)]
    cohorts = _cohorts(dice, flavors, resources)
    queues = {f"q{number}": _queue(dice, flavors, resources, list(cohorts)) for number in range(1, dice.randint(2, 4) + 1)}
    created = Scenario(seed, flavors, cohorts, queues)
    preempting = any("preemption" in spec for spec in queues.values())
    levels = dice.sample(range(1, 100), STEPS)
    alive: list[str] = []
    for number in range(STEPS):
        if len(alive) > 2 and dice.random() < 0.25:
            created.steps.append(alive.pop(dice.randrange(len(alive))))
            continue
        requests = {resource: dice.randint(1, 4) for resource in resources}
        priority = levels[number] if preempting else dice.choice([1, 1, 2])
        job = Job(f"j{number}", dice.choice(list(queues)), dice.randint(1, 2), requests, priority)
        created.steps.append(job)
        alive.append(job.name)
    return created


def _cohorts(dice: random.Random, flavors: list[str], resources: tuple[str, ...]) -> dict[str, Obj]:
    """One cohort, or a tree of up to four; some have their own quota, and some nested ones have limits."""
    result: dict[str, Obj] = {}
    for number in range(1, dice.choice([1, 1, 2, 3, 4]) + 1):
        parent = f"c{dice.randint(1, number - 1)}" if number > 1 else ""
        spec: Obj = {"parentName": parent} if parent else {}
        if dice.random() < 0.3:
            spec["resourceGroups"] = [_group(dice, flavors, resources, limits=bool(parent))]
        result[f"c{number}"] = spec
    return result


def _group(dice: random.Random, flavors: list[str], resources: tuple[str, ...], *, limits: bool) -> Obj:
    return {
        "coveredResources": list(resources),
        "flavors": [
            {"name": name, "resources": [_quota(dice, resource, limits=limits) for resource in resources]} for name in flavors
        ],
    }


def _quota(dice: random.Random, resource: str, *, limits: bool) -> Obj:
    nominal = dice.randint(0, 6)
    result = {"name": resource, "nominalQuota": str(nominal)}
    if limits and dice.random() < 0.3:
        result["borrowingLimit"] = str(dice.randint(0, 4))
    if limits and dice.random() < 0.3:
        result["lendingLimit"] = str(dice.randint(0, nominal))
    return result


def _queue(dice: random.Random, flavors: list[str], resources: tuple[str, ...], cohorts: list[str]) -> Obj:
    together = dice.random() < 0.85
    mine = dice.sample(flavors, dice.randint(1, len(flavors)))
    spec: Obj = {"resourceGroups": [_group(dice, mine, resources, limits=together)]}
    if together:
        spec["cohortName"] = dice.choice(cohorts)
    spec["queueingStrategy"] = dice.choice(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"])
    if dice.random() < 0.6:
        spec["preemption"] = _preemption(dice)
    if dice.random() < 0.5:
        choices = ["MayStopSearch", "TryNextFlavor"]
        spec["flavorFungibility"] = {"whenCanBorrow": dice.choice(choices), "whenCanPreempt": dice.choice(choices)}
    return spec


def _preemption(dice: random.Random) -> Obj:
    result: Obj = {
        "withinClusterQueue": dice.choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
        "reclaimWithinCohort": dice.choice(["Never", "LowerPriority", "Any"]),
    }
    if result["reclaimWithinCohort"] != "Never" and dice.random() < 0.5:
        result["borrowWithinCohort"] = {"policy": "LowerPriority"}
        if dice.random() < 0.5:
            result["borrowWithinCohort"]["maxPriorityThreshold"] = dice.randint(1, 100)
    return result
