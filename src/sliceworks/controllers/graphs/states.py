"""How far each resource of an instance has come in one pass, and what that makes of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

ACTIVE, IN_PROGRESS, ERROR, DELETING = "ACTIVE", "IN_PROGRESS", "ERROR", "DELETING"


class Step(Enum):
    """Where one resource stands."""

    READY = "ready"
    SKIPPED = "skipped"
    NOT_READY = "not ready"
    UNRESOLVED = "unresolved"
    TERMINATING = "terminating"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NodeState:
    """One resource: the message says what it waits for, or what went wrong. What is `lasting` needs a change to get better."""

    step: Step
    message: str = ""
    lasting: bool = False


READY, SKIPPED = NodeState(Step.READY), NodeState(Step.SKIPPED)


@dataclass(slots=True)
class States:
    """All resources of an instance, by id."""

    nodes: dict[str, NodeState] = field(default_factory=dict)

    def first(self, step: Step) -> NodeState | None:
        """The first resource that stands there."""
        return next((state for state in self.nodes.values() if state.step is step), None)

    def messages(self, *steps: Step) -> str:
        """What the resources that stand there say, joined."""
        return "; ".join(dict.fromkeys(state.message for state in self.nodes.values() if state.step in steps))

    @property
    def lasting(self) -> bool:
        """Whether another try would fail in the same way."""
        return all(state.lasting for state in self.nodes.values() if state.step is Step.FAILED)

    @property
    def settled(self) -> bool:
        """Whether it is known what should be there: nothing waits for its values and nothing went wrong."""
        return not any(state.step in (Step.UNRESOLVED, Step.TERMINATING, Step.FAILED) for state in self.nodes.values())

    @property
    def state(self) -> str:
        """The state of the instance."""
        if self.first(Step.FAILED):
            return ERROR
        good = all(state.step in (Step.READY, Step.SKIPPED) for state in self.nodes.values())
        return ACTIVE if good else IN_PROGRESS
