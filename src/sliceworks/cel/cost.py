"""Estimated cost of an expression, by the rules and factors of cel-go and of kube-apiserver's libraries.

A rule is rejected at definition when its cost, estimated from the limits in the schema, exceeds Kubernetes' budget. The estimate
follows cel-go 0.26 and Kubernetes 1.35, whose figures decide which rules a CRD may have: every difference would accept a CRD that
a cluster rejects, or the reverse. `Cost.built` is ours: the characters and items that calls build, which bounds memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.cel import syntax
from sliceworks.cel.sizes import INDICES, ITEMS, KEYS, VALUES, Size
from sliceworks.cel.types import result_type

if TYPE_CHECKING:
    from sliceworks.cel.sizes import Path, Sizes
    from sliceworks.cel.types import CelType

RULE_LIMIT = 10_000_000
"""The highest estimated cost of one rule, in all places of an object where it applies."""
SCHEMA_LIMIT = 100_000_000
"""The highest estimated cost of all rules of a schema."""
_UNLIMITED = 2**64 - 1
_STRING_FACTOR, _REGEX_FACTOR = 0.1, 0.25
_NAME_FORMAT_FACTOR = 128 * _REGEX_FACTOR
_LIST_COST, _MAP_COST, _MESSAGE_COST = 10, 30, 40
_MAX_FORMAT_SIZE = 64


class Cost(NamedTuple):
    """The range of an expression's cost. `built` is the maximum number of characters and items that it builds."""

    low: int
    high: int
    built: int = 0


_NO_COST, _UNIT_COST = Cost(0, 0), Cost(1, 1)


def estimate(tree: syntax.Tree, sizes: Sizes, unknown: int = _UNLIMITED) -> Cost:
    """The cost of an expression whose variables have the given sizes; `sizes` gets paths such as `("self", "list", "@items")`.

    `unknown` is the size of a value of which only the type is known, such as a part of a string.
    """
    return _Estimator(tree, sizes, Size(0, unknown)).cost(tree.checked.expr)


def describe_excess(name: str, cost: int, limit: int) -> str:
    """Kubernetes' message for a cost beyond its limit."""
    factor = cost / limit
    shown = "more than 100" if factor > 100 else f"{factor:f}" if factor < 1.5 else f"{factor:.1f}"
    return (
        f"{name} exceeds budget by factor of {shown}x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength "
        "where arrays, maps, and strings are declared)"
    )


def multiply(left: int, right: int) -> int:
    """The product of two costs, no more than 64 bits."""
    return min(left * right, _UNLIMITED)


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of keys and values of a list or map that the expression itself builds."""

    is_list: bool
    key: Size
    value: Size


class _Local(NamedTuple):
    """A variable of a loop."""

    path: Path
    size: Size | None
    entries: _Entries | None


class _Operand(NamedTuple):
    """An argument of a call, or the value that it is called on."""

    node: Any
    path: Path
    type: CelType
    computed: Size | None


class _Invocation(NamedTuple):
    """One overload of a call."""

    node: Any
    function: str
    overload: str
    target: _Operand | None
    operands: list[_Operand]


class _Call(NamedTuple):
    """The cost of a call without its operands, and the size of its result."""

    cost: Cost
    size: Size | None = None


class _Estimator:
    def __init__(self, tree: syntax.Tree, sizes: Sizes, unknown: Size) -> None:
        self._tree, self._sizes, self._unknown = tree, sizes, unknown
        self._paths: dict[int, Path] = {}
        self._locals: dict[str, list[_Local]] = {}
        self._known: dict[int, Size] = {}
        self._entries: dict[int, _Entries] = {}

    def cost(self, node: Any) -> Cost:
        kind = syntax.kind(node)
        if kind == "ident":
            local = self._local(node.ident.name)
            self._paths[node.id] = local.path if local is not None else (node.ident.name,)
            return _UNIT_COST
        if kind == "select":
            return self._select(node)
        if kind == "call":
            return self._call(node)
        if kind == "list":
            return self._list(node)
        if kind == "struct":
            return self._struct(node)
        return self._loop(node, node.comprehension) if kind == "comprehension" else _NO_COST

    def _select(self, node: Any) -> Cost:
        cost = self.cost(node.select.operand)
        if node.select.test:
            return cost
        self._paths[node.id] = (*self._path(node.select.operand), node.select.field)
        kind = self._type(node.select.operand).kind
        return _add(cost, _UNIT_COST) if kind in ("map", "message") else cost

    def _list(self, node: Any) -> Cost:
        items = list(node.list.elements)
        cost = _add(Cost(_LIST_COST, _LIST_COST, len(items)), *(self.cost(item) for item in items))
        self._entries[node.id] = _Entries(True, Size(1, 1), _union([self._size(item) for item in items]))
        return cost

    def _struct(self, node: Any) -> Cost:
        entries = list(node.struct.entries)
        if node.struct.message:
            return _add(Cost(_MESSAGE_COST, _MESSAGE_COST), *(self.cost(entry.value) for entry in entries))
        parts = [part for entry in entries for part in (entry.key, entry.value)]
        cost = _add(Cost(_MAP_COST, _MAP_COST, len(entries)), *(self.cost(part) for part in parts))
        keys, values = [self._size(entry.key) for entry in entries], [self._size(entry.value) for entry in entries]
        self._entries[node.id] = _Entries(False, _union(keys), _union(values))
        return cost

    def _loop(self, node: Any, loop: Any) -> Cost:
        cost = _add(self.cost(loop.range), self.cost(loop.init))
        initial = _Local(self._path(loop.init), self._size_or_none(loop.init), self._entries_of(loop.init))
        names = {loop.accumulator: initial, **self._loop_variables(loop)}
        for name, local in names.items():
            self._locals.setdefault(name, []).append(local)
        rounds = _add(self.cost(loop.condition), self.cost(loop.step))
        step_entries = self._entries_of(loop.step)
        for name in names:
            if name != loop.accumulator:
                self._locals[name].pop()
        cost = _add(cost, self.cost(loop.result))
        self._locals[loop.accumulator].pop()
        count = self._size(loop.range)
        self._record_loop_size(node, loop, count, step_entries)
        repeated = Cost(
            multiply(count.low, rounds.low), multiply(count.high, rounds.high), multiply(count.high, max(rounds.built, 1))
        )
        return _add(cost, repeated)

    def _record_loop_size(self, node: Any, loop: Any, count: Size, step_entries: _Entries | None) -> None:
        kind = syntax.kind(loop.init)
        if kind == "const":
            size = self._size_or_none(loop.init)
            if size is not None:
                self._known[node.id] = size
        elif kind in ("list", "struct"):
            self._known[node.id] = count
            if step_entries is not None:
                self._entries[node.id] = step_entries

    def _loop_variables(self, loop: Any) -> dict[str, _Local]:
        entries, path = self._entries_of(loop.range), self._path(loop.range)
        is_list = entries.is_list if entries is not None else self._type(loop.range).kind == "list"
        key, value = (entries.key, entries.value) if entries is not None else (None, None)
        values = _Local((*path, ITEMS if is_list else VALUES), value, None)
        if loop.second:
            return {loop.variable: _Local((*path, INDICES if is_list else KEYS), key, None), loop.second: values}
        return {loop.variable: values if is_list else _Local((*path, KEYS), key, None)}

    # Calls.

    def _call(self, node: Any) -> Cost:
        call = node.call
        if call.function == "dyn":
            cost = _add(_UNIT_COST, self.cost(call.args[0]))
            if (inner := self._size_or_none(call.args[0])) is not None:
                self._known[node.id] = inner
            if (entries := self._entries_of(call.args[0])) is not None:
                self._entries[node.id] = entries
            return cost
        costs = [self.cost(argument) for argument in call.args]
        operands = [self._operand(argument) for argument in call.args]
        overloads = self._tree.overloads(node)
        if not overloads:
            return _NO_COST
        target_cost, target = _NO_COST, None
        if syntax.kind(call.target):
            target_cost = self.cost(call.target)
            target = self._operand(call.target)
        total: Cost | None = None
        size: Size | None = None
        for overload in overloads:
            estimate = self._function(_Invocation(node, call.function, overload, target, operands), costs)
            total = estimate.cost if total is None else _cover(total, estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else _union([size, estimate.size])
            if overload in ("index_list", "index_map"):
                entries = self._entries_of(call.args[0])
                size = entries.value if entries is not None else None
                self._paths[node.id] = (*self._path(call.args[0]), ITEMS if overload == "index_list" else VALUES)
            if size is None:
                size = self._size_or_none(node)
        if size is not None:
            self._known[node.id] = size
        assert total is not None
        return _add(target_cost, total)

    def _function(self, call: _Invocation, costs: list[Cost]) -> _Call:
        node, function, overload, target, operands = call
        arguments = _add(*costs)
        library = self._library_call(call)
        if library is not None:
            built = library.size.high if library.size is not None and function not in _BUILDS_NOTHING else 0
            return _Call(_add(library.cost, arguments, Cost(0, 0, built)), library.size)
        if function in ("_&&_", "_||_"):
            return _Call(Cost(costs[0].low, arguments.high, arguments.built))
        if function == "_?_:_":
            return self._conditional(node, operands, costs)
        if function == "_+_" and overload in ("add_string", "add_bytes", "add_list"):
            return self._addition(node, overload, operands, arguments)
        return _add_cost(self._standard_call(function, overload, target, operands), arguments)

    def _conditional(self, node: Any, operands: list[_Operand], costs: list[Cost]) -> _Call:
        self._record_merged_entries(node, operands[1:])
        size = _union([self._size(operands[1].node), self._size(operands[2].node)])
        return _Call(_add(costs[0], _cover(costs[1], costs[2])), size)

    def _addition(self, node: Any, overload: str, operands: list[_Operand], arguments: Cost) -> _Call:
        sizes = [operand.computed or self._unknown for operand in operands]
        size = Size(_sum(sizes[0].low, sizes[1].low), _sum(sizes[0].high, sizes[1].high))
        self._record_merged_entries(node, operands)
        if overload == "add_list":
            return _Call(_add(_UNIT_COST, arguments), size)
        return _Call(_add(_scaled(size, _STRING_FACTOR), arguments, Cost(0, 0, size.high)), size)

    def _record_merged_entries(self, node: Any, operands: list[_Operand]) -> None:
        left, right = (self._entries_of(operand.node) for operand in operands)
        if left is not None and right is not None:
            self._entries[node.id] = _Entries(left.is_list, _union([left.key, right.key]), _union([left.value, right.value]))

    def _standard_call(self, function: str, overload: str, target: _Operand | None, operands: list[_Operand]) -> _Call:
        """Functions of the standard library that are not constant in time."""
        sizes = [operand.computed or self._unknown for operand in operands]
        whole = (target.computed or self._unknown) if target is not None else self._unknown
        if function == "format" and target is not None:
            return _Call(_scaled(whole, _STRING_FACTOR))
        if overload == "string_to_bytes":
            return _Call(_scaled(sizes[0], _STRING_FACTOR), Size(sizes[0].low, multiply(sizes[0].high, 4)))
        if overload in ("bytes_to_string", "string(bytes)"):
            return _Call(_scaled(sizes[0], _STRING_FACTOR), Size(sizes[0].low // 4, sizes[0].high))
        if function == "strings.quote":
            return _Call(_scaled(sizes[0], _STRING_FACTOR), Size(sizes[0].low + 2, _sum(multiply(sizes[0].high, 2), 2)))
        if function in ("startsWith", "endsWith"):
            return _Call(_scaled(sizes[0], _STRING_FACTOR))
        if overload == "in_list":
            return _Call(_scaled(sizes[1], 1))
        if function == "matches" and target is not None and len(operands) == 1:
            return _Call(_matching(whole, sizes[0]))
        if function == "contains" and target is not None:
            return _Call(_times(_scaled(whole, _STRING_FACTOR), _scaled(sizes[0], _STRING_FACTOR)))
        if function in ("_==_", "_!=_") or (function in _ORDER and operands[0].type.kind in ("string", "bytes")):
            smallest = min(sizes[0].high, sizes[1].high)
            return _Call(_scaled(Size(1 if smallest else 0, smallest), _STRING_FACTOR))
        return _Call(_UNIT_COST)

    def _library_call(self, call: _Invocation) -> _Call | None:
        """Kubernetes' libraries and cel-go's sets and lists."""
        _, function, _, target, operands = call
        sizes = [self._library_size(operand) for operand in operands]
        if function in _SETS and len(sizes) == 2:
            return _Call(_add(_scaled(_product(sizes[0], sizes[1]), _SETS[function]), _UNIT_COST))
        if target is None:
            return self._global_call(function, operands, sizes)
        whole = self._library_size(target)
        if function in _LIST_FUNCTIONS and target.type.kind in ("list", "dyn"):
            return self._list_call(function, target, whole, operands)
        if function in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"):
            return _Call(self._comparisons(target, whole))
        if function in ("lowerAscii", "upperAscii", "substring", "trim"):
            return _Call(_scaled(whole, _STRING_FACTOR), whole)
        if function == "replace" and len(sizes) >= 2:
            return _Call(_scaled(whole, 2 * _STRING_FACTOR), _replaced(whole, sizes[0], sizes[1]))
        if function == "split":
            limit = _literal(operands[1]) if len(operands) > 1 else None
            return _Call(_scaled(whole, 2 * _STRING_FACTOR), Size(0, whole.high if limit is None else limit % 2**64))
        if function == "join":
            size = self._joined(target, whole, sizes[0] if sizes else None)
            return _Call(_scaled(size, _STRING_FACTOR), size)
        if function in ("find", "findAll") and sizes:
            return _Call(_matching(whole, sizes[0]), Size(0, whole.high))
        if function in ("containsIP", "containsCIDR") and sizes:
            return _Call(_address_cost(function, operands[0], sizes[0]))
        if function == "validate" and sizes:
            cost = _scaled(sizes[0], _STRING_FACTOR)
            return _Call(_scaled(Size(cost.low, cost.high), _NAME_FORMAT_FACTOR))
        return _Call(_UNIT_COST) if function in _NOMINAL or function == "ip" else None

    def _global_call(self, function: str, operands: list[_Operand], sizes: list[Size]) -> _Call | None:
        if function in ("url", "jsonpatch.escapeKey") and len(sizes) == 1:
            return _Call(_scaled(sizes[0], _STRING_FACTOR), sizes[0])
        if function in _PARSERS and sizes:
            return _Call(_scaled(sizes[0], _PARSERS[function]))
        if function == "lists.range" and len(sizes) == 1:
            limit = _literal(operands[0])
            count = self._unknown.high if limit is None else max(limit, 0)
            return _allocated(1, Size(count, count))
        if function == "_==_" and len(operands) == 2 and operands[0].type == operands[1].type:
            return _equality(operands)
        return _Call(_UNIT_COST) if function == "format.named" else None

    def _list_call(self, function: str, target: _Operand, whole: Size, operands: list[_Operand]) -> _Call:
        if function == "slice":
            start, end = _literal(operands[0]), _literal(operands[1])
            count = (whole.high if end is None else max(end, 0)) - max(start or 0, 0)
            return _allocated(1, Size(count % 2**64, count % 2**64))
        if function == "flatten":
            depth = (_literal(operands[0]) if operands else 1) or _UNLIMITED
            return _allocated(depth, whole)
        if function in ("reverse", "reverse_"):
            return _allocated(1, whole)
        if function == "distinct":
            return _allocated(2, _product(whole, whole))
        sorted_by = operands[0] if function == "@sortByAssociatedKeys" and operands else target
        size = self._library_size(sorted_by)
        element = sorted_by.type.element
        return _allocated(2.1 if element is not None and element.kind in ("string", "bytes") else 2, _product(size, size))

    def _comparisons(self, target: _Operand, whole: Size) -> Cost:
        element = self._element_size(target)
        if element is None:
            return _scaled(whole, _STRING_FACTOR)
        comparison = _UNIT_COST
        if target.type.element is not None and target.type.element.kind in ("string", "bytes"):
            comparison = _add(_UNIT_COST, _scaled(element, _STRING_FACTOR))
        return Cost(multiply(whole.low, comparison.low), multiply(whole.high, comparison.high))

    def _joined(self, target: _Operand, whole: Size, separator: Size | None) -> Size:
        element = self._element_size(target)
        size = _product(whole, element) if element is not None else Size(0, 0)
        if separator is None:
            return size
        between = _product(separator, Size(max(whole.low - 1, 0), max(whole.high - 1, 0)))
        return Size(_sum(size.low, between.low), _sum(size.high, between.high))

    def _element_size(self, target: _Operand) -> Size | None:
        if target.type.kind not in ("list", "map", "optional"):
            return None
        return (self._sizes((*target.path, ITEMS)) if target.path else None) or self._unknown

    # Sizes, paths and types.

    def _operand(self, node: Any) -> _Operand:
        path = self._path(node)
        if path and path[0].startswith(("@result", "__result__")):
            path = ()
        return _Operand(node, path, self._type(node), self._size_or_none(node))

    def _library_size(self, operand: _Operand) -> Size:
        return operand.computed or (self._sizes(operand.path) if operand.path else None) or self._unknown

    def _size(self, node: Any) -> Size:
        return self._size_or_none(node) or self._unknown

    def _size_or_none(self, node: Any) -> Size | None:
        if node.id in self._known:
            return self._known[node.id]
        kind = syntax.kind(node)
        if kind == "const":
            value = node.const
            count = len(value.string) if value.HasField("string") else len(value.bytes) if value.HasField("bytes") else 1
            return Size(count, count)
        if kind in ("list", "struct") and not (kind == "struct" and node.struct.message):
            count = len(node.list.elements if kind == "list" else node.struct.entries)
            return Size(count, count)
        if (size := self._sizes(self._path(node))) is not None:
            self._known[node.id] = size
            return size
        if _is_scalar(self._type(node)):
            return Size(1, 1)
        local = self._local(node.ident.name) if kind == "ident" else None
        return local.size if local is not None else None

    def _entries_of(self, node: Any) -> _Entries | None:
        if node.id in self._entries:
            return self._entries[node.id]
        local = self._local(node.ident.name) if syntax.kind(node) == "ident" else None
        return local.entries if local is not None else None

    def _path(self, node: Any) -> Path:
        if syntax.kind(node) == "ident" and (local := self._local(node.ident.name)) is not None:
            return local.path
        return self._paths.get(node.id, ())

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _type(self, node: Any) -> CelType:
        return result_type(self._tree.types.get(node.id))


_SETS = {"sets.contains": 1.0, "sets.intersects": 1.0, "sets.equivalent": 2.0}
_LIST_FUNCTIONS = {"slice", "flatten", "reverse", "reverse_", "distinct", "sort", "@sortByAssociatedKeys"}
_PARSERS = {
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _STRING_FACTOR),
    "ip.isCanonical": 2 * _STRING_FACTOR,
}
_NOMINAL = frozenset(
    {
        *("masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast"),
        *("isGlobalUnicast", "sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo"),
        *("add", "sub", "major", "minor", "patch"),
        *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
    }
)
_ORDER = ("_<_", "_<=_", "_>_", "_>=_")
_BUILDS_NOTHING = frozenset({"url", "ip", "cidr"})


def _equality(operands: list[_Operand]) -> _Call | None:
    kind = operands[0].type.kind
    if kind in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"):
        return _Call(_UNIT_COST)
    if kind == "kubernetes.NamedFormat":
        return _Call(_scaled(Size(1, _MAX_FORMAT_SIZE), _STRING_FACTOR))
    if kind == "kubernetes.URL":
        size = operands[1].computed or Size(1, 1)
        return _Call(_scaled(Size(1, size.high), _STRING_FACTOR))
    return None


def _address_cost(function: str, operand: _Operand, size: Size) -> Cost:
    address = Size(4, 16)
    cost = _scaled(Size(8, 32), _STRING_FACTOR)
    if function == "containsCIDR":
        cost = _add(cost, _scaled(address, _STRING_FACTOR), _UNIT_COST)
    return _add(cost, _scaled(size, _STRING_FACTOR)) if operand.type.kind == "string" else cost


def _replaced(whole: Size, old: Size, new: Size) -> Size:
    high = low = 0
    if old.low == 0:
        high = _sum(multiply(_sum(whole.high, 1), new.high), whole.high)
    else:
        high = whole.high if new.high <= old.low else multiply(ceil(whole.high / old.low), new.high)
    if old.high == 0:
        low = _sum(multiply(_sum(whole.low, 1), new.low), whole.low)
    else:
        low = whole.low if old.high <= new.low else multiply(ceil(whole.low / old.high), new.low)
    return Size(low, high)


def _allocated(factor: float, size: Size) -> _Call:
    return _Call(_add(_scaled(size, factor), _UNIT_COST, Cost(_LIST_COST, _LIST_COST)), size)


def _matching(string: Size, pattern: Size) -> Cost:
    longer = Size(_sum(string.low, 1), _sum(string.high, 1))
    return _times(_scaled(longer, _STRING_FACTOR), _scaled(pattern, _REGEX_FACTOR))


def _literal(operand: _Operand) -> int | None:
    is_number = syntax.kind(operand.node) == "const" and operand.node.const.HasField("int")
    return int(operand.node.const.int) if is_number else None


def _is_scalar(kind: CelType) -> bool:
    if kind.kind == "optional":
        return kind.element is not None and _is_scalar(kind.element)
    return kind.kind in ("bool", "double", "int", "uint", "google.protobuf.Timestamp", "google.protobuf.Duration")


def _scaled(size: Size, factor: float) -> Cost:
    return Cost(*(min(ceil(bound * factor), _UNLIMITED) for bound in size))


def _times(left: Cost, right: Cost) -> Cost:
    return Cost(multiply(left.low, right.low), multiply(left.high, right.high))


def _product(left: Size, right: Size) -> Size:
    return Size(multiply(left.low, right.low), multiply(left.high, right.high))


def _sum(*numbers: int) -> int:
    return min(sum(numbers), _UNLIMITED)


def _add(*costs: Cost) -> Cost:
    return Cost(_sum(*(cost.low for cost in costs)), _sum(*(cost.high for cost in costs)), _sum(*(cost.built for cost in costs)))


def _add_cost(call: _Call, cost: Cost) -> _Call:
    built = call.size.high if call.size is not None else 0
    return _Call(_add(call.cost, cost, Cost(0, 0, built)), call.size)


def _cover(left: Cost, right: Cost) -> Cost:
    return Cost(min(left.low, right.low), max(left.high, right.high), max(left.built, right.built))


def _union(sizes: list[Size]) -> Size:
    return Size(min((size.low for size in sizes), default=0), max((size.high for size in sizes), default=0))
