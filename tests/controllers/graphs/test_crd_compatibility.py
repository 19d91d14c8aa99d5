"""Breaking changes of generated CRDs."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.controllers.graphs.crd_compatibility import compare

Object = dict[str, Any]


def version(spec: Object, **more: Any) -> Object:
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    return {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}, **more}


def of(**properties: Object) -> Object:
    return version({"properties": properties})


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (of(a=TEXT, b=TEXT), of(a=TEXT), "Property b was removed"),
        (of(a=TEXT), of(a=NUMBER), "Type changed from string to integer"),
        (of(a=TEXT), version({"properties": {"a": TEXT}, "required": ["a"]}), "Field a is newly required"),
        (of(a=TEXT), version({"properties": {"a": TEXT, "b": TEXT}, "required": ["b"]}), "Required property b was added"),
        (of(a={**TEXT, "enum": ["x", "y"]}), of(a={**TEXT, "enum": ["x"]}), 'Enum value "y" was removed'),
        (of(a=TEXT), of(a={**TEXT, "pattern": "^x"}), r"Validation pattern ^x was added"),
        (of(a={**TEXT, "pattern": "^x"}), of(a={**TEXT, "pattern": "^y"}), r"Validation pattern changed from ^x to ^y"),
        (of(a=NUMBER), of(a={**NUMBER, "minimum": 1}), "Minimum constraint 1 was added"),
        (of(a={**NUMBER, "maximum": 9}), of(a={**NUMBER, "maximum": 5}), "Maximum was decreased from 9 to 5"),
        (of(a={**TEXT, "minLength": 1}), of(a={**TEXT, "minLength": 3}), "MinLength was increased from 1 to 3"),
        (of(a={"type": "array", "items": TEXT}), of(a={"type": "array", "items": NUMBER}), "Type changed from string to integer"),
        (of(a={"type": "array", "items": TEXT}), of(a={"type": "array"}), "Property items was removed"),
        (
            version({"properties": {"a": {**TEXT, "default": "x"}}, "required": ["a"]}),
            version({"properties": {"a": TEXT}, "required": ["a"]}),
            "Default value removed from required field a",
        ),
        (of(a=TEXT), {**of(a=TEXT), "name": "v2"}, "Type changed from v1 to v2"),
    ],
)
def test_breaking_change_is_reported(old: Object, new: Object, expected: str) -> None:
    assert str(compare(old, new)) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (of(a=TEXT), of(a=TEXT, b=TEXT)),
        (of(a=TEXT), of(a={**TEXT, "default": "x"})),
        (of(a=TEXT), of(a={**TEXT, "description": "what it is"})),
        (of(a={**TEXT, "enum": ["x"]}), of(a={**TEXT, "enum": ["x", "y"]})),
        (of(a={**NUMBER, "maximum": 5}), of(a={**NUMBER, "maximum": 9})),
        (version({"properties": {"a": TEXT}, "required": ["a"]}), of(a=TEXT)),
        (of(a=TEXT), {**of(a=TEXT), "additionalPrinterColumns": [{"name": "A"}]}),
        (of(a=TEXT), version({"properties": {"a": TEXT, "b": {**TEXT, "default": "x"}}, "required": ["b"]})),
    ],
)
def test_compatible_change_is_accepted(old: Object, new: Object) -> None:
    report = compare(old, new)
    assert report.changed
    assert not report.breaking


def test_equal_schema_has_no_changes() -> None:
    assert not compare(of(a=TEXT), of(a=TEXT)).changed


def test_many_breaking_changes_are_counted() -> None:
    report = compare(of(a=TEXT, b=TEXT, c=TEXT, d=TEXT, e=TEXT), of())
    assert str(report).endswith("; and 2 more changes")
