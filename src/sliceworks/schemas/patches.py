"""JSON patch (RFC 6902) and merge patch (RFC 7386), with the answers and the leniency of kube-apiserver.

Both return a new document and leave the old one as it was; what did not change is shared between the two.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import orjson

from sliceworks.base.errors import BadRequest, Invalid, RequestEntityTooLarge
from sliceworks.schemas.golang import json_kind

MOST_OPERATIONS = 10_000
MOST_COPIED = 3 * 1024 * 1024

_ESCAPE = re.compile("~[01]")
_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TEXTS = ("op", "path", "from")


def json_patch(doc: Any, operations: Any) -> Any:
    """The document after a list of operations. The result may be no object at all: `replace` can exchange the root."""
    _check_operations(operations)
    editor = _Editor(doc)
    for operation in operations or ():
        editor.perform(operation or {})
    return editor.root


def _check_operations(operations: Any) -> None:
    if operations is not None and type(operations) is not list:
        raise _undecodable(f"{json_kind(operations)} into Go value of type []handlers.jsonPatchOp")
    for operation in operations or ():
        if operation is not None and type(operation) is not dict:
            raise _undecodable(f"{json_kind(operation)} into Go value of type handlers.jsonPatchOp")
        for name in _TEXTS:
            value = (operation or {}).get(name)
            if value is not None and type(value) is not str:
                raise _undecodable(f"{json_kind(value)} into Go struct field jsonPatchOp.{name} of type string")
    if operations and len(operations) > MOST_OPERATIONS:
        raise RequestEntityTooLarge(
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )


def unknown_fields(operations: Any) -> list[str]:
    """What strict or warning field validation says of fields that no operation has."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations if isinstance(operations, list) else ())
        if isinstance(operation, dict)
        for name in operation
        if name not in ("op", "path", "from", "value")
    ]


def merge_patch(doc: Any, patch: Any) -> Any:
    """The document with a merge patch over it: nulls remove, objects merge, anything else replaces."""
    if patch is None:
        raise BadRequest("Invalid JSON Patch")
    if type(patch) is not dict:
        raise _undecodable(f"{json_kind(patch)} into Go value of type map[string]interface {{}}")
    return _merged(doc, patch)


def _merged(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(doc)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
            continue
        current = doc.get(key)
        if type(value) is dict:
            merged[key] = _merged(current, value) if type(current) is dict else _without_nulls(value)
        else:
            merged[key] = value if type(current) is dict else _without_nulls(value)
    return merged


def _without_nulls(value: Any) -> Any:
    """A value that is new to the document: its nulls have nothing to remove."""
    if type(value) is dict:
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [_without_nulls(item) for item in value]
    return value


def unreadable(shown: str, problem: str) -> Invalid:
    """The refusal of a patched object that is not of its kind any more. `shown` is the patched object as JSON text."""
    body = f"Invalid value: {orjson.dumps(shown).decode()}: {problem}"
    causes = [{"reason": "FieldValueInvalid", "message": body, "field": "patch"}]
    return Invalid(f' "" is invalid: patch: {body}', details={"causes": causes})


def _undecodable(what: str) -> BadRequest:
    return BadRequest(f"error decoding patch: json: cannot unmarshal {what}")


def _refuse() -> NoReturn:
    """A patch that does not apply. The real server does not say why either."""
    raise Invalid("the server rejected our request due to an error in our request")


class _Editor:
    """A document under edit. Containers are copied when first changed; those copied already may be changed in place."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._mine: dict[int, Any] = {}
        self._copied = 0

    def perform(self, operation: dict[str, Any]) -> None:
        match operation.get("op"):
            case "add":
                self._add(_path(operation, "path"), operation.get("value"))
            case "remove":
                self._remove(_path(operation, "path"))
            case "replace":
                self._replace(_path(operation, "path"), operation)
            case "move":
                self._move(_path(operation, "from"), operation)
            case "copy":
                self._copy(_path(operation, "from"), operation)
            case "test":
                self._test(_path(operation, "path"), operation.get("value"))
            case _:
                _refuse()

    def _add(self, path: str, value: Any) -> None:
        holder, key = self._open(path)
        if type(holder) is dict:
            holder[key] = value
        elif key == "-":
            holder.append(value)
        else:
            holder.insert(_index(key, len(holder) + 1), value)

    def _remove(self, path: str) -> None:
        holder, key = self._open(path)
        if type(holder) is dict:
            if key not in holder:
                _refuse()
            del holder[key]
        else:
            del holder[_index(key, len(holder))]

    def _replace(self, path: str, operation: dict[str, Any]) -> None:
        value = operation.get("value")
        if not path:
            if type(value) not in (dict, list):
                _refuse()
            self.root = value
            return
        holder, key = self._open(path)
        if type(holder) is dict:
            holder[key] = value
        else:
            holder[_index(key, len(holder))] = value

    def _move(self, source: str, operation: dict[str, Any]) -> None:
        value = self._get(source)
        self._remove(source)
        self._add(_path(operation, "path"), value)

    def _copy(self, source: str, operation: dict[str, Any]) -> None:
        value = self._get(source)
        target = _path(operation, "path")
        if value is not None:
            try:
                text = orjson.dumps(value)
            except orjson.JSONEncodeError:
                # Copies into copies can grow deeper than anything that can be written.
                _refuse()
            self._copied += len(text)
            if self._copied > MOST_COPIED:
                _refuse()
            value = orjson.loads(text)
        self._add(target, value)

    def _test(self, path: str, value: Any) -> None:
        if not _same(self._get(path) if path else self.root, value):
            _refuse()

    def _get(self, path: str) -> Any:
        holder, key = self._find(path)
        return holder.get(key) if type(holder) is dict else holder[_index(key, len(holder))]

    def _find(self, path: str) -> tuple[Any, str]:
        """The container that a path leads into, as it is, and the last part of the path."""
        parts, key = _parts(path)
        node = self.root
        for part in parts:
            node = node.get(part) if type(node) is dict else node[_index(part, len(node))]
            if type(node) not in (dict, list):
                _refuse()
        return node, key

    def _open(self, path: str) -> tuple[Any, str]:
        """The same, free to be changed."""
        parts, key = _parts(path)
        node = self.root = self._own(self.root)
        for part in parts:
            place: Any = part if type(node) is dict else _index(part, len(node))
            below = node.get(part) if type(node) is dict else node[place]
            if type(below) not in (dict, list):
                _refuse()
            node[place] = node = self._own(below)
        return node, key

    def _own(self, node: Any) -> Any:
        if id(node) in self._mine:
            return node
        copy = node.copy()
        self._mine[id(copy)] = copy
        return copy


def _path(operation: dict[str, Any], name: str) -> str:
    found = operation.get(name)
    if found is None:
        _refuse()
    return str(found)


def _parts(path: str) -> tuple[list[str], str]:
    """What leads to the container, and the key in it. Whatever stands before the first slash does not count."""
    split = path.split("/")
    if len(split) < 2:
        _refuse()
    if "~" in path:
        split = [_ESCAPE.sub(lambda found: "/" if found[0] == "~1" else "~", part) for part in split]
    return split[1:-1], split[-1]


def _index(key: str, length: int) -> int:
    """A place in a list; counted from the end when negative."""
    if not _INDEX.fullmatch(key):
        _refuse()
    index = int(key)
    if not -length <= index < length:
        _refuse()
    return index + length if index < 0 else index


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON texts are: `1` is neither `1.0` nor `true`."""
    if type(left) is not type(right):
        return False
    if type(left) is dict:
        return left.keys() == right.keys() and all(_same(item, right[key]) for key, item in left.items())
    if type(left) is list:
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
