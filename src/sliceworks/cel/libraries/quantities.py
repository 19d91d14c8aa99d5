"""Kubernetes' quantity functions. A quantity is held as its number of billionths."""

from __future__ import annotations

from typing import Any

from sliceworks.base import quantity as quantities
from sliceworks.cel.libraries.functions import Function, accepts, unwrap, wrap

KIND = "kubernetes.Quantity"
_NANO = 10**9
_INT_LIMIT = 2**63


def quantity(text: str) -> dict[str, str]:
    return _quantity(quantities.nanos(text))


def _quantity(nanos: int) -> dict[str, str]:
    return wrap(KIND, str(nanos))


def _nanos(value: dict[str, Any] | int) -> int:
    return value * _NANO if isinstance(value, int) else int(unwrap(KIND, value))


def sign(value: dict[str, Any]) -> int:
    nanos = _nanos(value)
    return (nanos > 0) - (nanos < 0)


def is_integer(value: dict[str, Any]) -> bool:
    whole, rest = divmod(_nanos(value), _NANO)
    return not rest and -_INT_LIMIT <= whole < _INT_LIMIT


def as_integer(value: dict[str, Any]) -> int:
    if not is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nanos(value) // _NANO


def as_float(value: dict[str, Any]) -> float:
    return _nanos(value) / _NANO


def add(value: dict[str, Any], other: dict[str, Any] | int) -> dict[str, str]:
    return _quantity(_nanos(value) + _nanos(other))


def subtract(value: dict[str, Any], other: dict[str, Any] | int) -> dict[str, str]:
    return _quantity(_nanos(value) - _nanos(other))


def compare(value: dict[str, Any], other: dict[str, Any]) -> int:
    left, right = _nanos(value), _nanos(other)
    return (left > right) - (left < right)


FUNCTIONS = [
    Function("quantity", "quantity(string)", KIND, quantity),
    Function("isQuantity", "isQuantity(string)", "bool", accepts(quantities.nanos)),
    Function("sign", f"sign({KIND})", "int", sign),
    Function("isInteger", f"{KIND}.isInteger()", "bool", is_integer),
    Function("asInteger", f"{KIND}.asInteger()", "int", as_integer),
    Function("asApproximateFloat", f"{KIND}.asApproximateFloat()", "double", as_float),
    Function("add", f"{KIND}.add({KIND})", KIND, add),
    Function("add", f"{KIND}.add(int)", KIND, add),
    Function("sub", f"{KIND}.sub({KIND})", KIND, subtract),
    Function("sub", f"{KIND}.sub(int)", KIND, subtract),
]
