"""JSON patch (RFC 6902) and merge patch (RFC 7386), as kube-apiserver applies them.

Both return a new document and do not modify the old one; unchanged values are shared between the two.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import orjson

from sliceworks.base.errors import BadRequest, Invalid, RequestEntityTooLarge
from sliceworks.schemas.golang import json_kind

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024

_ESCAPE = re.compile("~[01]")
_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TEXTS = ("op", "path", "from")


def json_patch(doc: Any, operations: Any) -> Any:
    """The document after a list of operations. The result may not be an object: `replace` can replace the root."""
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
    if operations and len(operations) > MAX_OPERATIONS:
        raise RequestEntityTooLarge(
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )


def unknown_fields(operations: Any) -> list[str]:
    """Messages of strict or warning field validation for unknown fields of operations."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations if isinstance(operations, list) else ())
        if isinstance(operation, dict)
        for name in operation
        if name not in ("op", "path", "from", "value")
    ]


def merge_patch(doc: Any, patch: Any) -> Any:
    """The document after a merge patch: nulls remove, objects merge, other values replace."""
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
    """A value added to the document, without its nulls, which have nothing to remove."""
    if type(value) is dict:
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [_without_nulls(item) for item in value]
    return value


def undecodable_result(shown: str, problem: str) -> Invalid:
    """The error of a patched object that cannot be decoded as its kind. `shown` is the patched object as JSON."""
    body = f"Invalid value: {orjson.dumps(shown).decode()}: {problem}"
    causes = [{"reason": "FieldValueInvalid", "message": body, "field": "patch"}]
    return Invalid(f' "" is invalid: patch: {body}', details={"causes": causes})


def _undecodable(what: str) -> BadRequest:
    return BadRequest(f"error decoding patch: json: cannot unmarshal {what}")


def _refuse() -> NoReturn:
    """Reject a patch that does not apply. kube-apiserver does not report the reason either."""
    raise Invalid("the server rejected our request due to an error in our request")


class _Editor:
    """A document being patched. Maps and lists are copied before their first change and then modified in place."""

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
        container, key = self._find_for_write(path)
        if type(container) is dict:
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(key, len(container) + 1), value)

    def _remove(self, path: str) -> None:
        container, key = self._find_for_write(path)
        if type(container) is dict:
            if key not in container:
                _refuse()
            del container[key]
        else:
            del container[_index(key, len(container))]

    def _replace(self, path: str, operation: dict[str, Any]) -> None:
        value = operation.get("value")
        if not path:
            if type(value) not in (dict, list):
                _refuse()
            self.root = value
            return
        container, key = self._find_for_write(path)
        if type(container) is dict:
            container[key] = value
        else:
            container[_index(key, len(container))] = value

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
                # Repeated copies can nest deeper than can be encoded.
                _refuse()
            self._copied += len(text)
            if self._copied > MAX_COPIED_BYTES:
                _refuse()
            value = orjson.loads(text)
        self._add(target, value)

    def _test(self, path: str, value: Any) -> None:
        if not _same(self._get(path) if path else self.root, value):
            _refuse()

    def _get(self, path: str) -> Any:
        container, key = self._find(path)
        return container.get(key) if type(container) is dict else container[_index(key, len(container))]

    def _find(self, path: str) -> tuple[Any, str]:
        """The map or list that contains the target of a path, for reading, and the last part of the path."""
        parts, key = _parts(path)
        node = self.root
        for part in parts:
            node = node.get(part) if type(node) is dict else node[_index(part, len(node))]
            if type(node) not in (dict, list):
                _refuse()
        return node, key

    def _find_for_write(self, path: str) -> tuple[Any, str]:
        """Like `_find`, for modification: shared maps and lists on the path are copied."""
        parts, key = _parts(path)
        node = self.root = self._copy_once(self.root)
        for part in parts:
            key_or_index: Any = part if type(node) is dict else _index(part, len(node))
            child = node.get(part) if type(node) is dict else node[key_or_index]
            if type(child) not in (dict, list):
                _refuse()
            node[key_or_index] = node = self._copy_once(child)
        return node, key

    def _copy_once(self, node: Any) -> Any:
        if id(node) in self._mine:
            return node
        copy = node.copy()
        self._mine[id(copy)] = copy
        return copy


def _path(operation: dict[str, Any], name: str) -> str:
    path = operation.get(name)
    if path is None:
        _refuse()
    return str(path)


def _parts(path: str) -> tuple[list[str], str]:
    """The parent parts of a path and its last key. Anything before the first slash is ignored."""
    split = path.split("/")
    if len(split) < 2:
        _refuse()
    if "~" in path:
        split = [_ESCAPE.sub(lambda match: "/" if match[0] == "~1" else "~", part) for part in split]
    return split[1:-1], split[-1]


def _index(key: str, length: int) -> int:
    """A list index; negative indexes count from the end."""
    if not _INDEX.fullmatch(key):
        _refuse()
    index = int(key)
    if not -length <= index < length:
        _refuse()
    return index + length if index < 0 else index


def _same(left: Any, right: Any) -> bool:
    """Whether two values have the same JSON: `1` differs from `1.0` and from `true`."""
    if type(left) is not type(right):
        return False
    if type(left) is dict:
        return left.keys() == right.keys() and all(_same(item, right[key]) for key, item in left.items())
    if type(left) is list:
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
