"""What a Job's own rules say: of a pod that failed, and of the indexes that succeeded. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.twin.workloads.jobs import indexes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Verdict(NamedTuple):
    """What a failure means: `action` is the rule's, or nothing when no rule matches."""

    action: str = ""
    counts: bool = True
    message: str = ""


_COUNTED = Verdict()


def failure(policy: Mapping[str, Any] | None, pod: Mapping[str, Any]) -> Verdict:
    """What a podFailurePolicy says of a failed pod: the first rule that matches decides."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        words = _exit_code(rule, pod) if rule.get("onExitCodes") else _condition(rule, pod)
        if words:
            action = rule.get("action", "")
            message = f"{words} matching {action} rule at index {number}" if action == "FailJob" else ""
            return Verdict(action, action != "Ignore", message)
    return _COUNTED


def _place(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _exit_code(rule: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    wanted, status = rule["onExitCodes"], pod.get("status") or {}
    for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        ended = (container.get("state") or {}).get("terminated")
        if ended is None or wanted.get("containerName") not in (None, container["name"]):
            continue
        code = ended.get("exitCode", 0)
        if code and (code in (wanted.get("values") or ())) == (wanted.get("operator") == "In"):
            return f"Container {container['name']} for pod {_place(pod)} failed with exit code {code}"
    return ""


def _condition(rule: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    patterns = {(each.get("type"), each.get("status", "True")) for each in rule.get("onPodConditions") or ()}
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) in patterns:
            return f"Pod {_place(pod)} has condition {condition['type']}"
    return ""


def success(policy: Mapping[str, Any] | None, completions: int, succeeded: indexes.Spans) -> str:
    """The message of the first rule of a successPolicy that is met; nothing when none is."""
    for number, rule in enumerate((policy or {}).get("rules") or () if succeeded else ()):
        if _is_met(rule, completions, succeeded):
            return f"Matched rules at index {number}"
    return ""


def _is_met(rule: Mapping[str, Any], completions: int, succeeded: indexes.Spans) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and indexes.total(succeeded) >= count
    needed = indexes.parse(rule["succeededIndexes"], completions)
    there = indexes.common(needed, succeeded)
    return bool(needed) and (there == indexes.total(needed) or (count is not None and there >= count))


def restarts(pods: Iterable[Mapping[str, Any]]) -> int:
    """How often the containers of these pods were started again."""
    found = 0
    for pod in pods:
        status = pod.get("status") or {}
        for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            found += container.get("restartCount", 0)
    return found
