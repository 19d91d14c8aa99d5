"""A complete write (patch, decode, default, field ownership), compared byte for byte with a real server."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.schemas.ownership.record import body_of, merged, name_of, sequences, verb
from tests.schemas.test_ownership import common_of, live_before, observed, schema_of

from sliceworks.schemas import Schema, decode, prune, set_defaults
from sliceworks.twin.apiserver.fieldmanager import updater
from sliceworks.twin.apiserver.patch.jsonpatch import json_patch, merge_patch
from sliceworks.twin.apiserver.patch.strategic_merge import strategic_merge

Object = dict[str, Any]


def cases() -> list[Any]:
    result = []
    for number, sequence in enumerate(sequences()):
        for index, step in enumerate(sequence["steps"]):
            answer = observed()[sequence["name"]][index]
            if answer["code"] < 300 and verb(step) != "apply" and step.get("subresource") != "scale":
                result.append(pytest.param(number, index, id=f"{sequence['name']} {index}: {verb(step)} by {step['as']}"))
    return result


@pytest.mark.parametrize(("number", "index"), cases())
def test_managed_fields_match_the_real_server(number: int, index: int) -> None:
    sequence = sequences()[number]
    step, answer = sequence["steps"][index], observed()[sequence["name"]][index]
    schema = schema_of(sequence["of"])
    live = live_before(observed()[sequence["name"]][:index])
    sent = _sent(step, live, schema) if live else body_of(step, sequence["of"], name_of(number))
    reset = updater.resets_managed_fields(sent)
    new = _read(orjson.loads(orjson.dumps(sent)), schema)
    updater.update(live, new, schema, reset_owners=reset, **common_of(sequence, step, live, answer))
    assert new["metadata"].get("managedFields") == answer["object"]["metadata"].get("managedFields")


def _sent(step: Object, live: Object, schema: Schema) -> Any:
    match verb(step):
        case "json":
            return json_patch(live, step["json"])
        case "merge":
            return merge_patch(live, step["merge"])
        case "strategic":
            return strategic_merge(live, step["strategic"], schema)
        case _:
            return merged(live, step["put"])


def _read(sent: Object, schema: Schema) -> Object:
    new: Object = decode(schema, sent, []) if schema.name else prune(schema, sent, [])
    set_defaults(schema, new)
    return new
