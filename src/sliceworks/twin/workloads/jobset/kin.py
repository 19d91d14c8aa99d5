"""What the controller knows of the Jobs of one JobSet, as it comes in.

A Job ends in two steps: it has met its criteria, then it is complete or failed. The real controller sees both, since a Job takes a
few milliseconds from one to the other; some conditions of a JobSet come from the first. Here an end that comes before the step to
it was looked at waits for one pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.twin.workloads.jobset.children import Child


class Kin:
    """The Jobs of one JobSet."""

    __slots__ = ("_ending", "_fresh", "jobs")

    def __init__(self) -> None:
        self.jobs: dict[str, Child] = {}
        self._fresh: set[str] = set()
        self._ending: dict[str, Child] = {}

    def take(self, child: Child) -> None:
        """A Job is new or has changed."""
        name = child.name
        if child.finished and name in self._fresh and not self.jobs[name].finished and not child.deleting:
            self._ending[name] = child
            return
        self._ending.pop(name, None)
        self.jobs[name] = child
        self._fresh.add(name)

    def drop(self, name: str) -> None:
        """A Job is gone."""
        self.jobs.pop(name, None)
        self._ending.pop(name, None)
        self._fresh.discard(name)

    def look(self) -> list[Child]:
        """The Jobs as they are to be seen now."""
        self._fresh.clear()
        return list(self.jobs.values())

    def go_on(self) -> bool:
        """What was seen has been dealt with: let the ends come that waited for it. Tells whether there were any."""
        if not self._ending:
            return False
        self.jobs |= self._ending
        self._fresh |= self._ending.keys()
        self._ending.clear()
        return True
