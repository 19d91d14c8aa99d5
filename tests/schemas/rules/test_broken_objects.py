"""Rules report errors for damaged objects and never raise an exception."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest
from tests.schemas.rules.cases import Json, cases
from tests.schemas.rules.test_corpus import kept, strategy_of

from sliceworks.schemas import TypeMismatch
from sliceworks.twin.apiserver.validation.error_list import ErrorList
from sliceworks.twin.apiserver.validation.object_meta import validate_object_meta, validate_object_meta_update

ROUNDS = 30
ODD: tuple[Any, ...] = (
    None,
    "",
    0,
    -1,
    99999999,
    [],
    {},
    "odd",
    "-x",
    "a/b/c",
    "10.0.0.0/99",
    "::",
    False,
    True,
    [None],
    [{}],
    ["", ""],
)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_no_rule_fails_on_a_broken_object(case: Any) -> None:
    chance = random.Random(case.id)
    whole = kept(case.object)
    for _ in range(ROUNDS):
        broken = deepcopy(whole)
        for _ in range(chance.randint(1, 3)):
            break_something(broken, chance)
        try:
            obj = kept(broken)
        except (TypeMismatch, KeyError):
            continue
        for error in everything(obj, whole):
            assert error.cause()["message"]


def everything(obj: Json, old: Json) -> ErrorList:
    strategy, errors = strategy_of(obj), ErrorList()
    validate_object_meta(errors, obj["metadata"])
    validate_object_meta_update(errors, obj["metadata"], old["metadata"])
    if strategy.validate is not None:
        strategy.validate(errors, obj)
    if strategy.warnings is not None:
        assert all(isinstance(warning, str) for warning in strategy.warnings(obj))
    for validate in (strategy.validate_update, strategy.validate_status):
        if validate is not None:
            validate(errors, obj, old)
            validate(errors, old, obj)
    return errors


def break_something(value: Any, chance: random.Random) -> None:
    """Change, drop or duplicate one random value of the object."""
    while True:
        below = [item for item in (value.values() if isinstance(value, dict) else value) if isinstance(item, dict | list) and item]
        if not below or chance.random() < 0.25:
            break
        value = chance.choice(below)
    if isinstance(value, dict):
        key = chance.choice([name for name in value if name not in ("apiVersion", "kind")] or ["spec"])
        if chance.random() < 0.3:
            value.pop(key, None)
        else:
            value[key] = deepcopy(chance.choice(ODD))
    elif value:
        place = chance.randrange(len(value))
        value[place : place + 1] = chance.choice(([], [value[place]] * 2, [deepcopy(chance.choice(ODD))]))
