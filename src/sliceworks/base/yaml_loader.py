"""The only YAML parser: composes nodes from libyaml's events within limits, without recursion.

PyYAML's own loaders recurse per level of nesting, in C: a short document with 100,000 brackets ends the process. `compose`
rejects such a document, an exponential alias and an oversized one before it allocates memory for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD = "tag:yaml.org,2002:"


class Limits(NamedTuple):
    """The largest input: bytes, levels of nesting, and nodes. All apply to the input and to what its aliases expand to."""

    size: int
    depth: int
    nodes: int


class Problem(Exception):
    """Input that is not YAML: what libyaml was doing, what it found, and the lines of both, counted from 0."""

    def __init__(self, problem: str, line: int | None = None, *, context: str = "", context_line: int | None = None) -> None:
        super().__init__(f"{context}: {problem}" if context else problem)
        self.problem = problem
        self.line = line
        self.context_line = context_line
        self.is_from_scanner = False


class InvalidCharacter(Problem):
    """A byte or character that YAML does not allow; `position` is its offset in bytes."""

    def __init__(self, problem: str, character: int, position: int) -> None:
        super().__init__(problem)
        self.character = character
        self.position = position


class LimitExceeded(Problem):
    """Input beyond a limit; `limit` names it: size, depth, nodes or aliases."""

    def __init__(self, limit: str, problem: str, line: int | None = None) -> None:
        super().__init__(problem, line)
        self.limit = limit


class UnresolvedAlias(Problem):
    """An alias of an anchor that is undefined, or not complete yet."""

    def __init__(self, problem: str, anchor: str, line: int, *, is_cycle: bool) -> None:
        super().__init__(problem, line)
        self.anchor = anchor
        self.is_cycle = is_cycle


class Node:
    """A node of a document. `tag` is explicit or None; `start` and `end` are offsets in characters, `line` counts from 0."""

    __slots__ = ("column", "end", "line", "start", "tag")

    def __init__(self, event: yaml.Event, tag: str | None) -> None:
        start, end = event.start_mark, event.end_mark
        assert start is not None
        assert end is not None
        self.tag = tag
        self.line: int = start.line
        self.column: int = start.column
        self.start: int = start.index
        self.end: int = end.index


class Scalar(Node):
    """A scalar; `is_plain` if it has neither quotes nor a tag, so that its text decides the type."""

    __slots__ = ("is_plain", "value")

    def __init__(self, event: yaml.ScalarEvent) -> None:
        is_plain, _ = event.implicit
        super().__init__(event, None if is_plain or event.tag in {None, "!"} else event.tag)
        self.value: str = event.value
        self.is_plain: bool = is_plain


class Sequence(Node):
    """A sequence of nodes."""

    __slots__ = ("items",)

    def __init__(self, event: yaml.Event, tag: str | None) -> None:
        super().__init__(event, tag)
        self.items: list[Node] = []


class Mapping(Node):
    """A mapping, as pairs of nodes in their order."""

    __slots__ = ("is_flow", "pairs")

    def __init__(self, event: yaml.MappingStartEvent, tag: str | None) -> None:
        super().__init__(event, tag)
        self.pairs: list[tuple[Node, Node]] = []
        self.is_flow: bool = bool(event.flow_style)


def compose(text: str | bytes, limits: Limits, *, version: tuple[int, int] | None = None) -> Iterator[Node | None]:
    """The root node of each document, None for an empty one; raises Problem. `version` rejects another %YAML directive."""
    if len(text) > limits.size:
        raise LimitExceeded("size", f"larger than {limits.size:,} bytes")
    composer: _Composer | None = None
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.DocumentStartEvent):
                if version and event.version and tuple(event.version) != version:
                    raise Problem("found incompatible YAML document")
                composer = _Composer(limits)
            elif isinstance(event, yaml.DocumentEndEvent):
                assert composer is not None
                yield composer.root
                composer = None
            elif composer is not None:
                composer.add(event)
    except yaml.MarkedYAMLError as error:
        raise _translate(error) from error
    except yaml.reader.ReaderError as error:
        raise InvalidCharacter(error.reason, error.character, error.position) from error
    except (yaml.YAMLError, ValueError) as error:
        raise Problem(" ".join(str(error).split())) from error


def _translate(error: yaml.MarkedYAMLError) -> Problem:
    problem = Problem(
        " ".join(str(error.problem or "not valid YAML").split()),
        error.problem_mark.line if error.problem_mark else None,
        context=" ".join((error.context or "").split()),
        context_line=error.context_mark.line if error.context_mark else None,
    )
    problem.is_from_scanner = isinstance(error, yaml.scanner.ScannerError)
    return problem


class _Frame:
    """A collection that is not complete: its anchor, the nodes and characters before it, the pending key, the levels below it."""

    __slots__ = ("anchor", "before", "characters_before", "key", "levels", "node")

    def __init__(self, node: Sequence | Mapping, anchor: str | None, before: int, characters_before: int) -> None:
        self.node = node
        self.anchor = anchor
        self.before = before
        self.characters_before = characters_before
        self.key: Node | None = None
        self.levels = 0


class _Anchored(NamedTuple):
    node: Node
    nodes: int
    levels: int
    characters: int


class _Composer:
    """Builds one document."""

    def __init__(self, limits: Limits) -> None:
        self.root: Node | None = None
        self._limits = limits
        self._open: list[_Frame] = []
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0
        self._aliased = 0
        self._characters = 0

    def add(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            scalar = Scalar(event)
            self._grow(1, scalar.line)
            self._characters += len(scalar.value)
            if event.anchor:
                self._anchors[event.anchor] = _Anchored(scalar, 1, 0, len(scalar.value))
            self._attach(scalar)
        elif isinstance(event, yaml.MappingStartEvent):
            self._start(Mapping(event, event.tag), event.anchor)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._start(Sequence(event, event.tag), event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _start(self, node: Sequence | Mapping, anchor: str | None) -> None:
        self._deepen(1, node.line)
        if anchor:
            self._anchors.pop(anchor, None)
        self._open.append(_Frame(node, anchor, self._count, self._characters))
        self._grow(1, node.line)

    def _end(self, event: yaml.Event) -> None:
        frame = self._open.pop()
        if event.end_mark is not None:
            frame.node.end = event.end_mark.index
        levels = frame.levels + 1
        if frame.anchor:
            nodes, characters = self._count - frame.before, self._characters - frame.characters_before
            self._anchors[frame.anchor] = _Anchored(frame.node, nodes, levels, characters)
        if self._open:
            self._open[-1].levels = max(self._open[-1].levels, levels)
        self._attach(frame.node)

    def _alias(self, event: yaml.AliasEvent) -> None:
        line, anchor = event.start_mark.line if event.start_mark else 0, str(event.anchor)
        anchored = self._anchors.get(anchor)
        if anchored is None:
            is_cycle = any(frame.anchor == anchor for frame in self._open)
            problem = f"anchor {anchor!r} contains itself" if is_cycle else f"found undefined alias {anchor!r}"
            raise UnresolvedAlias(problem, anchor, line, is_cycle=is_cycle)
        self._deepen(anchored.levels, line)
        self._aliased += anchored.nodes
        self._grow(anchored.nodes, line)
        self._characters += anchored.characters
        if self._characters > self._limits.size:
            raise LimitExceeded("aliases", f"aliases expand to more than {self._limits.size:,} characters", line)
        if self._open:
            self._open[-1].levels = max(self._open[-1].levels, anchored.levels)
        self._attach(anchored.node)

    def _deepen(self, levels: int, line: int) -> None:
        if len(self._open) + levels > self._limits.depth:
            raise LimitExceeded("depth", f"nested more than {self._limits.depth} levels deep", line)

    def _grow(self, nodes: int, line: int) -> None:
        self._count += nodes
        if self._count <= self._limits.nodes:
            return
        if self._aliased * 2 > self._count:
            raise LimitExceeded("aliases", "aliases expand to too many nodes", line)
        raise LimitExceeded("nodes", f"more than {self._limits.nodes:,} nodes", line)

    def _attach(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        frame = self._open[-1]
        if isinstance(frame.node, Sequence):
            frame.node.items.append(node)
        elif frame.key is None:
            frame.key = node
        else:
            frame.node.pairs.append((frame.key, node))
            frame.key = None


def merged_pairs(mapping: Mapping) -> list[tuple[Node, Node]]:
    """The pairs of a mapping with those of its merge keys (`<<`) before its own, so that its own win."""
    if not any(is_merge(key) for key, _ in mapping.pairs):
        return mapping.pairs
    merged: list[tuple[Node, Node]] = []
    own: list[tuple[Node, Node]] = []
    for key, value in mapping.pairs:
        if not is_merge(key):
            own.append((key, value))
        elif isinstance(value, Mapping):
            merged.extend(merged_pairs(value))
        elif isinstance(value, Sequence) and all(isinstance(item, Mapping) for item in value.items):
            for item in reversed(value.items):
                assert isinstance(item, Mapping)
                merged.extend(merged_pairs(item))
        else:
            kind = "a scalar" if isinstance(value, Scalar) else "a sequence"
            raise Problem(f"expected a mapping or list of mappings for merging, found {kind}", value.line)
    return merged + own


def is_merge(key: Node) -> bool:
    """Whether a key merges another mapping into its own."""
    return isinstance(key, Scalar) and ((key.is_plain and key.value == "<<") or key.tag == f"{STANDARD}merge")
