"""Operations on field sets, compared with sets of paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.twin.apiserver.fieldmanager import fieldpath

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.fieldmanager.fieldpath import Fields

Paths = frozenset[tuple[str, ...]]

names = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80}', 'v:"x"', "i:0"])
paths = st.frozensets(st.lists(names, min_size=1, max_size=4).map(tuple), max_size=8)


def fields_of(members: Paths) -> Fields:
    fields: Fields = {}
    for path in members:
        fields = fieldpath.union(fields, fieldpath.single_field(path))
    return fields


def members_of(fields: Fields, prefix: tuple[str, ...] = ()) -> Paths:
    result: set[tuple[str, ...]] = set()
    for name, below in fields.items():
        if name == ".":
            result.add(prefix)
        elif not below:
            result.add((*prefix, name))
        else:
            result |= members_of(below, (*prefix, name))
    return frozenset(result)


@given(paths)
def test_set_contains_the_added_paths(members: Paths) -> None:
    fields = fields_of(members)
    assert members_of(fields) == members
    assert all(fieldpath.contains(fields, path) for path in members)
    assert len(list(fieldpath.format_paths(fields))) == len(members)
    assert fieldpath.parse(fields) == fields


@given(paths, paths)
def test_union_difference_and_intersection_equal_those_of_sets(left: Paths, right: Paths) -> None:
    one, two = fields_of(left), fields_of(right)
    assert members_of(fieldpath.union(one, two)) == left | right
    assert members_of(fieldpath.difference(one, two)) == left - right
    assert members_of(fieldpath.intersection(one, two)) == left & right
    assert members_of(one) == left, "a set was changed in place"
    assert members_of(two) == right, "a set was changed in place"


@given(paths, paths)
def test_difference_removes_nested_paths(left: Paths, right: Paths) -> None:
    rest = frozenset(path for path in left if not any(path[: len(other)] == other for other in right))
    assert members_of(fieldpath.recursive_difference(fields_of(left), fields_of(right))) == rest


@given(paths)
def test_leaves_have_no_children(members: Paths) -> None:
    leaves = frozenset(path for path in members if not any(other != path and other[: len(path)] == path for other in members))
    assert members_of(fieldpath.leaves(fields_of(members))) == leaves


@given(paths, paths)
def test_sets_stay_sorted(left: Paths, right: Paths) -> None:
    both = fieldpath.union(fields_of(left), fields_of(right))
    assert list(both) == list(fieldpath.sort_level(both))


def test_order_equals_that_of_kubernetes() -> None:
    shuffled = [
        "i:2",
        "v:true",
        'v:"b"',
        "v:9",
        'v:"a"',
        "v:10",
        'k:{"port":443}',
        'k:{"port":80}',
        'k:{"name":"z"}',
        "f:b",
        "i:10",
        "f:a",
        ".",
    ]
    assert list(fieldpath.sort_level({name: {} for name in shuffled})) == [
        *(".", "f:a", "f:b"),
        *('k:{"name":"z"}', 'k:{"port":80}', 'k:{"port":443}'),
        *("v:9", "v:10", 'v:"a"', 'v:"b"', "v:true"),
        *("i:2", "i:10"),
    ]


def test_paths_are_formatted() -> None:
    fields: Fields = {
        "f:spec": {
            "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}},
            "f:tags": {'v:"a\\"b"': {}},
            "f:on": {"v:true": {}},
        },
        "f:list": {"i:3": {}},
    }
    assert list(fieldpath.format_paths(fields)) == [
        ".spec.ports",
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=80,protocol="TCP"].name',
        '.spec.tags[="a\\"b"]',
        ".spec.on[=true]",
        ".list[3]",
    ]


@pytest.mark.parametrize(
    "broken", [1, {"a": {}}, {"f:a": 1}, {"k:x": {}}, {"k:1": {}}, {"i:x": {}}, {"v:": {}}, {"f": {}}, {"f:a": {"x": {}}}]
)
def test_invalid_set_is_rejected(broken: Any) -> None:
    with pytest.raises(ValueError, match=r".*"):
        fieldpath.parse(broken)


def test_unsorted_set_is_sorted() -> None:
    result = {"f:b": {".": {}}, "x:later": {"y": 1}, "f:a": {"f:z": {}, ".": {}}}
    assert list(fieldpath.parse(result).items()) == [("f:a", {".": {}, "f:z": {}}), ("f:b", {})]
