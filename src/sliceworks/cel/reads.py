"""What an expression reads of its variables: paths that are certain before it runs.

They serve twice. Only what is read is handed to the engine, which copies every value it is given. And when something is missing,
they tell what it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax
from sliceworks.cel.rewriting import engine_name
from sliceworks.cel.values import converter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.schemas.structural import Schema

Steps = tuple[str | int, ...]
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Read:
    """A path into a variable. `needed` says that an expression which gets there fails when nothing is found."""

    root: str
    steps: Steps
    needed: bool = True

    def __str__(self) -> str:
        return self.root + "".join(f"[{step}]" if isinstance(step, int) else _shown(step) for step in self.steps)

    def missing_at(self, scope: Mapping[str, Any]) -> int | None:
        """How many steps can be gone before something is missing, or None where nothing is."""
        value = scope.get(self.root, _NOTHING)
        if value is _NOTHING or value is None:
            return -1
        for position, step in enumerate(self.steps):
            value = _below(value, step)
            if value is _NOTHING or (value is None and position + 1 < len(self.steps)):
                return position
        return None


def _shown(step: str) -> str:
    return f".{step}" if step.isidentifier() else f'["{step}"]'


def _below(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and -1 < step < len(value) else _NOTHING
    return value.get(step, _NOTHING) if isinstance(value, dict) else _NOTHING


def reads(root: Any, variables: Iterable[str]) -> list[Read]:
    """Every path that a checked tree reads of the variables."""
    found: dict[Read, None] = {}
    _visit(root, frozenset(variables), found)
    return list(found)


def lone_path(root: Any, variables: Iterable[str]) -> Read | None:
    """The path that the whole expression is, or None where it does more than read one field."""
    found = _chain(root, frozenset(variables))
    return found if found is not None and found.needed else None


def _visit(node: Any, variables: frozenset[str], found: dict[Read, None]) -> None:
    read = _chain(node, variables)
    if read is not None:
        found[read] = None
        return
    if syntax.kind(node) == "comprehension":
        loop = node.comprehension
        inner = variables - {loop.variable, loop.second, loop.accumulator}
        for part, names in ((loop.range, variables), (loop.init, variables), (loop.condition, inner), (loop.step, inner)):
            _visit(part, names, found)
        _visit(loop.result, variables - {loop.accumulator}, found)
        return
    for child in syntax.children(node):
        _visit(child, variables, found)


def _chain(node: Any, variables: frozenset[str]) -> Read | None:
    what = syntax.kind(node)
    if what == "ident":
        return Read(node.ident.name, ()) if node.ident.name in variables else None
    if what == "select":
        return _further(node.select.operand, node.select.field, variables, needed=not node.select.test)
    if what != "call" or node.call.function not in ("_[_]", "_?._", "_[?_]") or len(node.call.args) != 2:
        return None
    step = node.call.args[1]
    if syntax.kind(step) != "const" or not (step.const.HasField("string") or step.const.HasField("int")):
        return None
    literal = step.const.string if step.const.HasField("string") else step.const.int
    return _further(node.call.args[0], literal, variables, needed=node.call.function == "_[_]")


def _further(operand: Any, step: str | int, variables: frozenset[str], *, needed: bool) -> Read | None:
    before = _chain(operand, variables)
    return Read(before.root, (*before.steps, step), before.needed and needed) if before is not None else None


@dataclass(slots=True)
class Feed:
    """Which parts of a value are handed to the engine, how they are converted on the way, and what a variable is called there."""

    called: str = ""
    whole: bool = False
    convert: Callable[[Any], Any] | None = None
    below: dict[str, Feed] = field(default_factory=dict)

    def take(self, value: Any) -> Any:
        if self.whole:
            return self.convert(value) if self.convert is not None and value is not None else value
        if not isinstance(value, dict):
            return value
        return {step: feed.take(value[step]) for step, feed in self.below.items() if step in value}


def feeds(found: Iterable[Read], schemas: Mapping[str, Schema | None]) -> dict[str, Feed]:
    """The feed of each variable that is read."""
    made: dict[str, Feed] = {}
    for read in found:
        feed, schema = made.setdefault(read.root, Feed(engine_name(read.root))), schemas.get(read.root)
        for step in read.steps:
            # Lists are handed over whole: indices in an expression count from the list's own start.
            if feed.whole or isinstance(step, int):
                break
            feed, schema = feed.below.setdefault(step, Feed()), _schema_below(schema, step)
        feed.whole, feed.convert = True, converter(schema)
    return made


def _schema_below(schema: Schema | None, step: str) -> Schema | None:
    return schema.properties.get(step, schema.additional) if schema is not None else None
