"""Keys in order, of which many may come and go between two looks at them.

To keep a list of a hundred thousand keys in order costs more with each key than all else that is done to store an object; nobody
asks for the order as often as that. What came and went is therefore noted, and worked in when somebody looks.
"""

from __future__ import annotations


class Ordered:
    """A set of keys; `listed` gives them in order."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._added: list[str] = []
        self._removed: set[str] = set()

    def add(self, key: str) -> None:
        """Take in a key that is not there."""
        if key in self._removed:
            self._removed.discard(key)
        else:
            self._added.append(key)

    def remove(self, key: str) -> None:
        """Let go of a key that is there."""
        self._removed.add(key)

    def listed(self) -> list[str]:
        """All keys in order; the list is not to be changed, and is as it was when more keys come."""
        if self._added or self._removed:
            removed = self._removed
            # Python's sort goes through what is in order already in one step.
            keys = sorted(self._keys + self._added) if self._added else self._keys
            self._keys = [key for key in keys if key not in removed] if removed else keys
            self._added, self._removed = [], set()
        return self._keys
