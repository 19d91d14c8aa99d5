"""What Terraform began to make: kept line by line while it works, so that nothing is forgotten when it is killed in the middle.

A thing is in doubt when its making was begun and its end is not in the state: because the answer was lost, or because whoever
worked on it is gone. The next run looks whether it is there, and takes it over instead of making it twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import files

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]
FILE = "begun.jsonl"
_LOST = re.compile(
    r"\b50[0234]\b|unavailable|connection|\bEOF\b|timed? ?out|timeout|deadline|broken pipe|cannot reach|did not answer"
    r"|internal error|plugin did not respond|interrupted|cancell?ed",
    re.IGNORECASE,
)
"""Words of errors after which nobody knows whether what was asked for was done."""


@dataclass(slots=True)
class Journal:
    """The journal of one stage."""

    folder: Path
    _failed: dict[str, str] = field(default_factory=dict)

    @property
    def _file(self) -> Path:
        return self.folder / FILE

    def in_doubt(self) -> list[str]:
        """The addresses of what may have been made."""
        if not self._file.exists():
            return []
        lines = self._file.read_bytes().splitlines()
        return list(dict.fromkeys(_read(line) for line in lines if _read(line)))

    def take(self, said: Object) -> None:
        """A line of what Terraform says in JSON."""
        hook = said.get("hook") or {}
        if said.get("type") == "apply_start" and hook.get("action") == "create":
            with self._file.open("ab") as file:
                file.write(orjson.dumps({"address": hook["resource"]["addr"]}) + b"\n")
        elif said.get("type") == "diagnostic" and said["diagnostic"].get("address"):
            told = said["diagnostic"]
            self._failed[told["address"]] = f"{told.get('summary', '')} {told.get('detail', '')}"

    def settle(self) -> None:
        """Terraform ended by itself and wrote its state: only what failed without a clear answer stays in doubt."""
        left = [address for address in self.in_doubt() if _LOST.search(self._failed.get(address, ""))]
        self._failed.clear()
        self.keep(left)

    def keep(self, left: list[str]) -> None:
        """Only these are still in doubt."""
        if left:
            files.put(self._file, b"".join(orjson.dumps({"address": address}) + b"\n" for address in left))
        else:
            self._file.unlink(missing_ok=True)


def _read(line: bytes) -> str:
    """The address in a line; a line that was cut short when everything ended says nothing."""
    try:
        return str(orjson.loads(line)["address"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
