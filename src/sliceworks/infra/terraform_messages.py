"""What Terraform's and its provider's messages mean: kinds of failures, the lock of a state, hints.

No other module decides by Terraform's messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

RERUN_HINT = "`sliceworks env apply` resumes where it stopped"
_MAX_PROBLEMS = 3
_LOCK = re.compile(r"\bID: +(\S+).*?\bWho: +(\S+)(?:.*?\bCreated: +(\S+ [0-9:]+))?", re.DOTALL)
_NO_BUCKET = re.compile(r"bucket doesn't exist|specified bucket does not exist", re.IGNORECASE)
_STALE = re.compile(r"saved plan (is stale|does not match)", re.IGNORECASE)
_SERIAL = re.compile(r"\bserial\b")
_ALREADY_EXISTS = r"already exists|alreadyExists|\b409\b"
_INDEX = r"""(?:\["[^"]*"\]|\[\d+\])?"""
_ADDRESS = re.compile(rf"(?:module\.[\w-]+{_INDEX}\.)*\bgoogle_\w+\.[\w-]+{_INDEX}")

_HINTS = (
    (_NO_BUCKET.pattern, "create the state bucket first: `gcloud storage buckets create gs://BUCKET`"),
    (r"bucket you tried to delete is not empty|containing objects without", "set spec.forceDestroy to true, then destroy again"),
    (r"deletion.protection", "set spec.deletionProtection to false, then destroy again"),
    (r"quota", f"request more quota, or reduce the pools in the document; then {RERUN_HINT}"),
    (r"stockout|does not have enough resources", f"use another zone, spot or a reservation, or try again later; {RERUN_HINT}"),
    (
        r"has not been used in project|SERVICE_DISABLED",
        f"an enabled service takes about a minute to become available; then {RERUN_HINT}",
    ),
    (
        r"default credentials|invalid authentication|invalid_grant|\b401\b|UNAUTHENTICATED",
        "`gcloud auth application-default login`",
    ),
    (
        r"serviceAccounts\.getAccessToken",
        "grant yourself roles/iam.serviceAccountTokenCreator on the automation account; `sliceworks env apply` does it for owners",
    ),
    (
        r"permission|PERMISSION_DENIED|\b403\b",
        f"grant the role to your account or to the automation account (spec.automation.roles); then {RERUN_HINT}",
    ),
    (
        r"connection re(fused|set)|cannot connect|no such host|timeout|\bEOF\b|broken pipe|unavailable|\b50[234]\b",
        f"the connection was lost, or the service is unavailable: {RERUN_HINT}",
    ),
    (r"bucket name is not available", "bucket names are globally unique: choose another{adopt}"),
    (_ALREADY_EXISTS, "it was created outside this environment: choose another name, or delete it first{adopt}"),
)

_LOST = re.compile(
    r"\b50[0234]\b|unavailable|connection|\bEOF\b|timed? ?out|timeout|deadline|broken pipe|cannot connect|did not answer"
    r"|internal error|plugin did not respond|interrupted|cancell?ed",
    re.IGNORECASE,
)
"""Errors that leave open whether the request was executed."""


def is_outcome_unknown(problem: str) -> bool:
    """Whether the error of a resource leaves open if the request was executed."""
    return _LOST.search(problem) is not None


def is_bucket_missing(output: str) -> bool:
    """Whether the state bucket does not exist."""
    return _NO_BUCKET.search(output) is not None


def is_plan_stale(output: str) -> bool:
    """Whether the state changed after the plan was saved."""
    return _STALE.search(output) is not None


def is_left_locked(output: str) -> bool:
    """Whether the run could not release its own lock."""
    return "releasing the state lock" in output


def is_state_older(output: str) -> bool:
    """Whether a state was not pushed because the stored one is newer."""
    return _SERIAL.search(output) is not None


def is_state_missing(output: str) -> bool:
    """Whether the stage has no state yet."""
    return "No state file was found" in output


def is_object_missing(output: str) -> bool:
    """Whether the object to import does not exist."""
    return "non-existent remote object" in output


def is_interruption(message: str) -> bool:
    """Whether Terraform reports that it received SIGINT."""
    return "Interrupt received" in message


def join_problems(problems: Sequence[str]) -> str:
    """The first few distinct problems on one line."""
    once = list(dict.fromkeys(problems))
    more = f"; and {len(once) - _MAX_PROBLEMS} more" if len(once) > _MAX_PROBLEMS else ""
    return "; ".join(once[:_MAX_PROBLEMS]) + more


class StateLock(NamedTuple):
    """The lock of a state; `since` is a UTC time without zone, and empty if Terraform did not print it."""

    id: str = "ID"
    who: str = "another client"
    since: str = ""


def read_state_lock(output: str) -> StateLock | None:
    """The lock that stopped Terraform; None if the state was not locked."""
    if "Error acquiring the state lock" not in output and "Lock Info" not in output:
        return None
    match = _LOCK.search(output)
    return StateLock(match[1], match[2], match[3] or "") if match else StateLock()


def find_hint(output: str, stage: str) -> str:
    """A hint for known errors of Terraform; empty for all others."""
    lock = read_state_lock(output)
    if lock is not None:
        return _unlock_hint(lock, stage)
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, output, re.IGNORECASE)), "")
    return hint.replace("{adopt}", _adopt_hint(output, stage))


def _adopt_hint(output: str, stage: str) -> str:
    """The provider also reports "already exists" when it retries a creation whose response was lost."""
    addresses = list(_ADDRESS.finditer(output))
    for index, address in enumerate(addresses):
        end = addresses[index + 1].start() if index + 1 < len(addresses) else len(output)
        if re.search(_ALREADY_EXISTS, output[address.end() : end], re.IGNORECASE):
            return f"; if an interrupted run of yours created it: `sliceworks env adopt {stage} '{address[0]}'`"
    return ""


def _unlock_hint(lock: StateLock, stage: str) -> str:
    since = f" since {lock.since}" if lock.since else ""
    return f"locked by {lock.who}{since}; if that run was interrupted: `sliceworks env unlock {stage} {lock.id}`, then apply again"


def describe_diagnostic(diagnostic: dict[str, Any]) -> str:
    """A diagnostic on one line."""
    address = diagnostic.get("address")
    where = f"{address}: " if address else ""
    detail = " ".join(str(diagnostic.get("detail") or "").split())
    summary = " ".join(str(diagnostic.get("summary") or "").split())
    return f"{where}{summary}{f': {detail}' if detail and detail != summary else ''}"


def first_error(text: str) -> str:
    """The first error of Terraform's human-readable output, on one line."""
    lines = [line.strip(" │╷╵\t") for line in text.splitlines()]
    start = next((index for index, line in enumerate(lines) if line.startswith("Error: ")), None)
    if start is None:
        return " ".join(line for line in lines if line)[:400] or "Terraform failed without an error message"
    return " ".join(line for line in lines[start : start + 8] if line).removeprefix("Error: ")
