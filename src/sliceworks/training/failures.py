"""What follows from a failure: rules by exit code, and hosts that are taken away. Pure.

A Job tells its JobSet why it failed only through its pod failure policy: each exit code with a rule fails the Job at once, and
the JobSet's rules then know the code from the Job's message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.specs.training import SLICE

if TYPE_CHECKING:
    from sliceworks.specs.training import RestartRule, TrainingSpec

Object = dict[str, Any]
_ACTIONS = {"fail": "FailJobSet", "restart": "RestartJobSet", "restart-for-free": "RestartJobSetAndIgnoreMaxRestarts"}


def of_pods(spec: TrainingSpec, container: str) -> Object | None:
    """The slices' podFailurePolicy; None where nothing is to be told apart."""
    rules: list[Object] = []
    for rule in spec.restarts.rules:
        codes = {"containerName": container, "operator": "In", "values": sorted(rule.exit_codes)}
        rules.append({"action": "FailJob", "onExitCodes": codes})
    if spec.slices.capacity == "spot":
        rules.append({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
    return {"rules": rules} if rules else None


def of_job(spec: TrainingSpec) -> Object:
    """The JobSet's failurePolicy. Spot machines that are taken away cost no restart."""
    rules = [_rule(number, rule) for number, rule in enumerate(spec.restarts.rules)]
    if spec.slices.capacity == "spot":
        taken = ["has condition DisruptionTarget matching"]
        rules.append(_named("spotMachineTaken", "RestartJobSetAndIgnoreMaxRestarts", taken))
    return {"maxRestarts": spec.restarts.max, **({"rules": rules} if rules else {})}


def _rule(number: int, rule: RestartRule) -> Object:
    codes = "|".join(map(str, sorted(rule.exit_codes)))
    return _named(f"exitCodes{number}", _ACTIONS[rule.action], [f"failed with exit code ({codes}) matching"])


def _named(name: str, action: str, patterns: list[str]) -> Object:
    return {
        "name": name,
        "action": action,
        "targetReplicatedJobs": [SLICE],
        "onJobFailureReasons": ["PodFailurePolicy"],
        "onJobFailureMessagePatterns": patterns,
    }
