"""What this room raises: a definition that cannot be used, and an expression that is wrong when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument, SliceworksError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.graph.model import Issue, Path


class DefinitionError(InvalidDocument):
    """A definition that cannot be used: `issues` holds everything that is wrong, in the order of the document."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        first = self.issues[0]
        more = f" (and {len(self.issues) - 1} more)" if len(self.issues) > 1 else ""
        shown = f"{first.expression}: " if first.expression and first.expression not in first.message else ""
        super().__init__(shown + first.message + more, place=first.place, hint=first.remedy)


class EvaluationFailed(SliceworksError):
    """An expression that is wrong for this instance: waiting will not help. `path` leads to it in the definition."""

    def __init__(
        self, reason: str, *, node: str = "", expression: str = "", path: Path = (), place: str = "", hint: str = ""
    ) -> None:
        where = f"{place}: " if place else f"resource {node}: " if node else ""
        super().__init__(f"{where}{expression}: {reason}" if expression else f"{where}{reason}", hint=hint)
        self.reason, self.node, self.expression, self.path, self.place = reason, node, expression, path, place
