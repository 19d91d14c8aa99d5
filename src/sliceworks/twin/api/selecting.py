"""Which objects a call selects, by labels and by fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest
from sliceworks.kube import selectors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.store.entries import Entry

# What is written as it is read: no number, no truth, nothing escaped.
_is_word = re.compile(r"(?!true$|false$)[A-Za-z][A-Za-z0-9._:/-]*", re.ASCII).fullmatch


def matcher(call: Call) -> Callable[[Entry], bool] | None:
    """Whether an entry passes the call's selectors; None when everything does."""
    labels = selectors.parse_labels(call.param("labelSelector"))
    fields = selectors.parse_fields(call.param("fieldSelector"))
    tests: list[Callable[[Entry], bool]] = []
    if call.name and call.target.verb == "watch":
        tests.append(lambda entry: entry.name == call.name)
    if not labels.everything:
        tests.append(lambda entry: labels.matches(entry.labels))
    if not fields.everything:
        tests.append(_field_test(call, fields))
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda entry: all(test(entry) for test in tests)


def _field_test(call: Call, fields: selectors.FieldSelector) -> Callable[[Entry], bool]:
    known, simple = call.resource.strategy.fields, {"metadata.name", "metadata.namespace"}
    if known or call.resource.custom:
        fields.check(lambda name: name in known or name in simple)
    for term in fields.terms:
        if term.field and term.field not in known and term.field not in simple:
            place = f"{call.resource.group}/{call.version.name}, Resource={call.resource.plural}"
            raise BadRequest(
                f'Unable to find "{place}" that match label selector "{call.param("labelSelector")}", field selector '
                f'"{call.param("fieldSelector")}": "{term.field}" is not a known field selector: only "metadata.name", '
                '"metadata.namespace"'
            )
    names = [term.field for term in fields.terms if term.field in known]
    # A word that is not in the text is no field's value: most objects need not be decoded.
    texts = [b'"%b"' % term.value.encode() for term in fields.terms if term.equal and term.field in known and _is_word(term.value)]

    def test(entry: Entry) -> bool:
        for text in texts:
            if text not in entry.data:
                return False
        values = {"metadata.name": entry.name, "metadata.namespace": entry.namespace}
        if names:
            obj = entry.object()
            values |= {name: known[name](obj) for name in names}
        return fields.matches(values)

    return test
