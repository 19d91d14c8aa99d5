"""What goes wrong with Terraform, and what to do about it: its words are kept, and the remedy is added. Pure."""

from __future__ import annotations

import re

AGAIN = "`sliceworks env apply` goes on where it stopped"
_MOST = 3
_LOCK = re.compile(r"\bID: +(?P<id>\S+).*?\bWho: +(?P<who>\S+)(?:.*?\bCreated: +(?P<since>\S+ [0-9:]+))?", re.DOTALL)
_NO_BUCKET = re.compile(r"bucket doesn't exist|specified bucket does not exist", re.IGNORECASE)
_THERE = r"already exists|alreadyExists|\b409\b"
_INDEX = r"""(?:\["[^"]*"\]|\[\d+\])?"""
_ADDRESS = re.compile(rf"(?:module\.[\w-]+{_INDEX}\.)*\bgoogle_\w+\.[\w-]+{_INDEX}")
_REMEDIES = (
    (_NO_BUCKET.pattern, "the bucket for the state must be there first: `gcloud storage buckets create gs://BUCKET`"),
    (r"bucket you tried to delete is not empty|containing objects without", "set spec.forceDestroy to true, apply, then destroy"),
    (r"deletion.protection", "set spec.deletionProtection to false, apply, then destroy"),
    (r"quota", f"ask for more quota, or for less in the document; then {AGAIN}"),
    (r"stockout|does not have enough resources", f"try another zone, spot or a reservation, or later; {AGAIN}"),
    (r"has not been used in project|SERVICE_DISABLED", f"a service takes a minute to be there after it is enabled; then {AGAIN}"),
    (
        r"default credentials|invalid authentication|invalid_grant|\b401\b|UNAUTHENTICATED",
        "`gcloud auth application-default login`",
    ),
    (
        r"permission|PERMISSION_DENIED|\b403\b",
        f"have the role given to whoever applies, or to the automation account (spec.automation.roles); then {AGAIN}",
    ),
    (
        r"connection re(fused|set)|cannot reach|no such host|timeout|\bEOF\b|broken pipe|unavailable|\b50[234]\b",
        f"the connection was lost, or the service is down: {AGAIN}",
    ),
    (r"bucket name is not available", "names of buckets are taken once in the whole world: choose another{taking_over}"),
    (_THERE, "somebody else made it: choose another name, or remove it first{taking_over}"),
)


def told(problems: list[str]) -> str:
    """Several problems in one line: the first few, each once."""
    once = list(dict.fromkeys(problems))
    more = f"; and {len(once) - _MOST} more" if len(once) > _MOST else ""
    return "; ".join(once[:_MOST]) + more


def is_locked(said: str) -> bool:
    """Whether somebody else's lock is in the way."""
    return "Error acquiring the state lock" in said or "Lock Info" in said


def stays_locked(said: str) -> bool:
    """Whether a run could not give back its own lock."""
    return "releasing the state lock" in said


def has_no_bucket(said: str) -> bool:
    """Whether the bucket for the state is what is missing."""
    return _NO_BUCKET.search(said) is not None


def remedy(said: str, stage: str) -> str:
    """What to do about it; empty when Terraform's own words must do."""
    if is_locked(said):
        return _unlocking(said, stage)
    found = next((words for pattern, words in _REMEDIES if re.search(pattern, said, re.IGNORECASE)), "")
    return found.replace("{taking_over}", _taking_over(said, stage))


def _taking_over(said: str, stage: str) -> str:
    """What was made by a try whose answer was lost is there as well: the provider tries again by itself, and hears just that."""
    found = list(_ADDRESS.finditer(said))
    for index, each in enumerate(found):
        end = found[index + 1].start() if index + 1 < len(found) else len(said)
        if re.search(_THERE, said[each.end() : end], re.IGNORECASE):
            return f"; if it is from a try of yours whose answer was lost: `sliceworks env adopt {stage} '{each[0]}'`"
    return ""


def _unlocking(said: str, stage: str) -> str:
    found = _LOCK.search(said)
    who = f"{found['who']} is" if found else "somebody else is"
    since = f" since {found['since']}" if found and found["since"] else ""
    lock = found["id"] if found else "ID"
    return f"{who} at work on it{since}, or was stopped in the middle: then `sliceworks env unlock {stage} {lock}`, and apply again"
