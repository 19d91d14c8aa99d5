"""What may be wrong with a failure policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import FieldError
from sliceworks.twin.workloads.jobset.keys import Obj, replicas

if TYPE_CHECKING:
    from collections.abc import Iterator

_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
_SINGLE = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?\Z", re.ASCII)
_MOST_REPLICAS = 1024


def problem(text: str) -> FieldError:
    """Something wrong that no single field is to blame for."""
    return FieldError("InternalError", "", None, text)


def failure_policy_errors(policy: Obj, jobs: list[Obj], known: list[str], *, restart_job: bool) -> Iterator[FieldError]:
    rules = policy.get("rules") or []
    if any(rule.get("action") in _SINGLE for rule in rules):
        if not restart_job:
            yield problem(
                "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed "
                "when RestartJob feature gate is disabled"
            )
            return
        if any(replicas(job) > _MOST_REPLICAS for job in jobs):
            yield problem(
                "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action "
                f"and a replicated job with replicas > {_MOST_REPLICAS}"
            )
    for rule in rules:
        yield from _rule_errors(rule, known)
    places: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        places.setdefault(rule["name"], []).append(number)
    for name, numbers in places.items():
        if len(numbers) > 1:
            shown = " ".join(map(str, numbers))
            yield problem(f"rule names are not unique, rules with indices [{shown}] all have the same name '{name}'")


def _rule_errors(rule: Obj, known: list[str]) -> Iterator[FieldError]:
    name = rule["name"]
    length = len(name.encode())
    if not 1 <= length <= 128:
        yield problem(
            f"invalid failure policy rule name of length {length}, "
            "the rule name must be at least 1 characters long and at most 128 characters long"
        )
    if not _RULE_NAME.match(name):
        yield problem(
            f"invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic character, "
            "optionally followed by a string of alphanumeric characters or '_,:', "
            "and must end with an alphanumeric character or '_'"
        )
    for target in rule.get("targetReplicatedJobs") or ():
        if target not in known:
            yield problem(f"invalid replicatedJob name '{target}' in failure policy does not appear in .spec.ReplicatedJobs")
    for reason in rule.get("onJobFailureReasons") or ():
        if reason not in _REASONS:
            yield problem(f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason")
