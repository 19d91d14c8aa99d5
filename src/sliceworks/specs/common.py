"""The base model of all documents (frozen, camelCase, unknown fields are errors) and shared field types."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from sliceworks.base import duration, names

GROUP = "sliceworks.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class Spec(BaseModel):
    """Base of all parts of a document. Unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=False, strict=True)


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


def _name(value: str) -> str:
    for problem in names.dns1123_subdomain_errors(value):
        raise ValueError(problem)
    return value


def _label_name(value: str) -> str:
    for problem in names.qualified_name_errors(value):
        raise ValueError(problem)
    return value


def _annotation_name(value: str) -> str:
    _label_name(value.lower())  # as Kubernetes validates annotation keys
    return value


def _label_value(value: str) -> str:
    for problem in names.label_value_errors(value):
        raise ValueError(problem)
    return value


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A duration: `90s`, `5m`, `1h30m`, or a number of seconds."""
Timestamp = Annotated[datetime, BeforeValidator(_timestamp)]
Name = Annotated[str, AfterValidator(_name)]
LabelName = Annotated[str, AfterValidator(_label_name)]
AnnotationName = Annotated[str, AfterValidator(_annotation_name)]
LabelValue = Annotated[str, AfterValidator(_label_value)]


class Metadata(Spec):
    """Name, labels and annotations of a document."""

    name: Name
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict)
    annotations: dict[AnnotationName, str] = Field(default_factory=dict)


class NamespacedMetadata(Metadata):
    """Metadata of a document that belongs to a namespace."""

    namespace: Name | None = None
