"""Label and field selectors of list, watch and deletecollection."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest
from sliceworks.kube import field_selectors, selectors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.entry import Entry

# Strings that JSON encodes without escapes, and that are not numbers or booleans.
_is_word = re.compile(r"(?!true$|false$)[A-Za-z][A-Za-z0-9._:/-]*", re.ASCII).fullmatch


def build_filter(call: Call) -> Callable[[Entry], bool] | None:
    """A function that matches entries against the selectors of a call; None if all match."""
    labels = selectors.parse_labels(call.param("labelSelector"))
    fields = field_selectors.parse_fields(call.param("fieldSelector"))
    tests: list[Callable[[Entry], bool]] = []
    if call.name and call.target.verb == "watch":
        tests.append(lambda entry: entry.name == call.name)
    if not labels.matches_everything:
        tests.append(lambda entry: labels.matches(entry.labels))
    if not fields.matches_everything:
        tests.append(_field_test(call, fields))
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda entry: all(test(entry) for test in tests)


def _field_test(call: Call, fields: field_selectors.FieldSelector) -> Callable[[Entry], bool]:
    known = call.version.selectable_fields if call.resource.custom else call.resource.strategy.selectable_fields
    simple = {"metadata.name", "metadata.namespace"}
    if known or call.resource.custom:
        fields.check(lambda name: name in known or name in simple)
    for term in fields.terms:
        if term.field and term.field not in known and term.field not in simple:
            resource = f"{call.resource.group}/{call.version.name}, Resource={call.resource.plural}"
            raise BadRequest(
                f'Unable to find "{resource}" that match label selector "{call.param("labelSelector")}", field selector '
                f'"{call.param("fieldSelector")}": "{term.field}" is not a known field selector: only "metadata.name", '
                '"metadata.namespace"'
            )
    if fields.matches_nothing:
        return lambda _: False
    names = {term.field for term in fields.terms if term.field in known}
    # Objects whose JSON does not contain the value cannot match: they need not be decoded.
    words = {term.value for term in fields.terms if term.equal and term.field in known and _is_word(term.value)}
    literals = [b'"%b"' % value.encode() for value in words]

    def test(entry: Entry) -> bool:
        if any(value not in entry.data for value in literals):
            return False
        values = {"metadata.name": entry.name, "metadata.namespace": entry.namespace}
        if names:
            obj = entry.object()
            values |= {name: known[name](obj) for name in names}
        return fields.matches(values)

    return test
