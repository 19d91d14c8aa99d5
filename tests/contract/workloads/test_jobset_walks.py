"""Random walks of JobSets: after every step both clusters are in the same state."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.clusters import real_enabled
from tests.support.jobsets import GROUP, JobSetDriver, replicated
from tests.support.quiescence import QuiescenceWatcher

if TYPE_CHECKING:
    from tests.support.http import Api
    from tests.support.jobset_install import Gates

Obj = dict[str, Any]
_WALKS, _STEPS = 24 if real_enabled() else 8, 6
# With startup order, these depend on whether a Job that meets its criteria is observed before it ends.
_FLEETING = ("StartupPolicyInProgress", "StartupPolicyCompleted", "Suspended")
_ACTIONS = ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")


class Walk:
    """One JobSet and the random generator of its steps."""

    def __init__(self, api: Api, namespace: str, seed: int) -> None:
        self.js, self.dice = JobSetDriver(api, namespace), random.Random(seed)
        self.seed = seed
        self.seen: list[str] = []

    def begin(self) -> None:
        self.js.create(*self._jobs(), **self._spec()).ok(201)

    def _jobs(self) -> list[Obj]:
        names = "abc"[: self.dice.randint(1, 3)]
        jobs = [replicated(name, self.dice.randint(1, 2)) for name in names]
        for number, job in enumerate(jobs[1:]):
            if self.dice.random() < 0.3:
                job["dependsOn"] = [{"name": names[number], "status": self.dice.choice(["Ready", "Complete"])}]
        self.ordered = self.dice.random() < 0.3 and not any("dependsOn" in job for job in jobs)
        self.names = names
        return jobs

    def _spec(self) -> Obj:
        spec: Obj = {"suspend": self.dice.random() < 0.3}
        if self.ordered:
            spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
        if self.dice.random() < 0.4:
            targets = [name for name in self.names if self.dice.random() < 0.6]
            spec["successPolicy"] = {"operator": self.dice.choice(["All", "Any"]), "targetReplicatedJobs": targets}
        if self.dice.random() < 0.8:
            strategy = self.dice.choice(["Recreate", "BlockingRecreate"])
            spec["failurePolicy"] = {"maxRestarts": self.dice.randint(0, 2), "restartStrategy": strategy, "rules": self._rules()}
        return spec

    def _rules(self) -> list[Obj]:
        return [
            {
                "name": f"rule{number}",
                "action": self.dice.choice(_ACTIONS),
                "targetReplicatedJobs": [self.dice.choice(self.names)],
                "onJobFailureReasons": [self.dice.choice(["BackoffLimitExceeded", "DeadlineExceeded"])],
            }
            for number in range(self.dice.randint(0, 2))
        ]

    def step(self) -> None:
        """Perform a random action on the JobSet or one of its Jobs."""
        status = self.js.status()
        suspended = bool(self.js.get()["spec"].get("suspend"))
        choice, luck = self.dice.random(), self.dice.random()
        if status.get("terminalState"):
            return
        if suspended or choice < 0.15:
            self.seen.append("resume" if suspended else "suspend")
            self.js.change(suspend=not suspended).ok()
            return
        jobs = [name for name, job in sorted(self.js.jobs().items()) if (job.get("status") or {}).get("active")]
        if not jobs:
            return
        job = jobs[int(luck * len(jobs))]
        act = self.js.run if choice < 0.45 else self.js.succeed if choice < 0.75 else self.js.fail
        self.seen.append(f"{act.__name__} {job}")
        act(job)

    def look(self) -> str:
        """A summary of the JobSet's state."""
        status = self.js.status()
        parts = [
            f"restarts {status.get('restarts')} ({status.get('restartsCountTowardsMax', 0)} count)",
            status.get("terminalState", ""),
        ]
        conditions = [
            condition for condition in status.get("conditions") or () if not (self.ordered and condition["type"] in _FLEETING)
        ]
        parts += [
            f"{condition['type']}={condition['status']} {condition['reason']}: {condition['message']}" for condition in conditions
        ]
        for item in status.get("replicatedJobsStatus") or ():
            parts.append(" ".join(f"{key} {value}" for key, value in sorted(item.items()) if value))
        for name, job in sorted(self.js.jobs().items()):
            run = job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"]
            parts.append(f"{name} of run {run}" + (" suspended" if job["spec"]["suspend"] else ""))
        return "; ".join(filter(None, parts))


@pytest.mark.long(60)
@pytest.mark.timeout(600)
def test_random_walks_reach_the_same_states(api: Api, ns: str, real: bool, jobset: Gates) -> None:
    jobset.set()
    walks = [Walk(api, _namespace(api, f"{ns}-{seed}"), seed) for seed in range(_WALKS)]
    names = (f"errand-{number}" for number in itertools.count())

    def errand() -> None:
        other = JobSetDriver(api, ns, next(names))
        other.create(replicated("a")).ok(201)
        other.until_counted("a", active=1)

    with ThreadPoolExecutor(8) as hands, QuiescenceWatcher(api, f"{GROUP}/jobsets", "/apis/batch/v1/jobs", "/api/v1/pods") as quiet:
        for number in range(_STEPS + 1):
            list(hands.map(Walk.step if number else Walk.begin, walks))
            # The Job controller reconciles each Job at most once a second.
            quiet.rest(1.5 if real else 1.3, errand)
            for walk, place in zip(walks, hands.map(Walk.look, walks), strict=True):
                walk.seen.append(place)
    wrong = []
    for walk in walks:
        try:
            goldens.check("workloads_jobset_walks", f"walk {walk.seed}", walk.seen, real=real, words=walk.js.words())
        except AssertionError as error:
            wrong.append(f"walk {walk.seed}: {error}")
    assert not wrong, "\n".join(wrong)


def _namespace(api: Api, name: str) -> str:
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
    assert api.post(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}}).status in (201, 409)
    return name
