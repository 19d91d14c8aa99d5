"""The base model of all documents (frozen, camelCase, unknown fields are errors), shared field types and validators."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from sliceworks.base import duration, names, quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

GROUP = "sliceworks.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class Spec(BaseModel):
    """Base of all parts of a document. Unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=False, strict=True)


# Validators of a model: assign the result to a class attribute.


class InvalidFields(ValueError):
    """Problems that a validator finds in fields below its own: the path from there, and a message."""

    def __init__(self, problems: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(message for _, message in problems))
        self.problems = problems


def exactly_one_of(*fields: str) -> Any:
    """A validator that requires exactly one of these fields."""

    def check(spec: Spec) -> Spec:
        if _count_set(spec, fields) != 1:
            raise ValueError(f"exactly one of {_list_fields(spec, fields)} is required")
        return spec

    return model_validator(mode="after")(check)


def at_most_one_of(*fields: str) -> Any:
    """A validator that allows at most one of these fields."""

    def check(spec: Spec) -> Spec:
        if _count_set(spec, fields) > 1:
            raise ValueError(f"{_list_fields(spec, fields)} are mutually exclusive")
        return spec

    return model_validator(mode="after")(check)


def _count_set(spec: Spec, fields: Iterable[str]) -> int:
    values = (getattr(spec, field) for field in fields)
    return sum(value is not None and value is not False and value not in ("", []) for value in values)


def _list_fields(spec: Spec, fields: Iterable[str]) -> str:
    return names.join_words(type(spec).model_fields[field].alias for field in fields)


def check_unique(kind: str, values: Iterable[object]) -> None:
    """Raise ValueError for the first value that occurs twice; `kind` says what the values are, such as `model name`."""
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"duplicate {kind}: {value}")
        seen.add(value)


# Validators of a field: parts of an annotated type.


def valid(find_errors: Callable[[str], list[str]]) -> AfterValidator:
    """Accepts strings in which `find_errors` finds no error."""

    def check(value: str) -> str:
        for error in find_errors(value):
            raise ValueError(error)
        return value

    return AfterValidator(check)


def matching(pattern: str, expected: str, max_length: int = 0) -> AfterValidator:
    """Accepts strings that match a pattern; `expected` describes them in the error message."""
    match = re.compile(pattern).fullmatch

    def check(value: str) -> str:
        if max_length and len(value) > max_length:
            raise ValueError(f"must be no more than {max_length} characters, {value!r} has {len(value)}")
        if not match(value):
            raise ValueError(f"must be {expected}, got {value!r}")
        return value

    return AfterValidator(check)


def number(value: object) -> object:
    """Accepts an integer where a float is expected."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a duration such as 90s, 5m or 1h30m")
    seconds = float(value) if isinstance(value, int | float) else duration.parse(value)
    if seconds < 0:
        raise ValueError("must not be negative")
    return seconds


def _timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        timestamp = value
    elif isinstance(value, str):
        timestamp = datetime.fromisoformat(value)
    else:
        raise ValueError("must be a time such as 2026-11-16T08:00:00Z")
    if timestamp.tzinfo is None:
        raise ValueError("must have a time zone, such as 2026-11-16T08:00:00Z")
    return timestamp


def _positive_quantity(value: str) -> str:
    if quantity.parse(value) <= 0:
        raise ValueError(f"must be greater than 0, got {value}")
    return value


Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[str, AfterValidator(_positive_quantity)]
"""A Kubernetes quantity greater than 0."""
Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A duration: `90s`, `5m`, `1h30m`, or a number of seconds."""
Timestamp = Annotated[datetime, BeforeValidator(_timestamp)]
Name = Annotated[str, valid(names.dns1123_subdomain_errors)]
LabelName = Annotated[str, valid(names.qualified_name_errors)]
# Kubernetes validates the keys of annotations in lower case.
AnnotationName = Annotated[str, valid(lambda value: names.qualified_name_errors(value.lower()))]
LabelValue = Annotated[str, valid(names.label_value_errors)]
Variable = Annotated[str, valid(names.strict_environment_name_errors)]


class Metadata(Spec):
    """Name, labels and annotations of a document."""

    name: Name
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict)
    annotations: dict[AnnotationName, str] = Field(default_factory=dict)


class NamespacedMetadata(Metadata):
    """Metadata of a document that belongs to a namespace."""

    namespace: Name | None = None
