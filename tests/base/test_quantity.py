"""Quantities: values, canonical forms, and the error messages of Kubernetes."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base import quantity

INVALID_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

# Seen from k8s.io/apimachinery v0.35.4.
CANONICAL = {
    "0": "0",
    "0Gi": "0",
    "-0": "0",
    "1": "1",
    "1.5": "1500m",
    "0.1": "100m",
    "100m": "100m",
    "1000m": "1",
    "1500m": "1500m",
    "1000": "1k",
    "100k": "100k",
    "1500k": "1500k",
    "1024": "1024",
    "1024Ki": "1Mi",
    "1.5Gi": "1536Mi",
    "0.5Gi": "512Mi",
    "1000Mi": "1000Mi",
    "8Gi": "8Gi",
    "512Ki": "512Ki",
    "0.5Ki": "512",
    "0.0005Ki": "512m",
    "1e3": "1e3",
    "12e6": "12e6",
    "1E": "1E",
    "1E3": "1E3",
    "1000e3": "1e6",
    "0.1n": "1n",
    "1e-12": "1e-9",
    "9Ei": "9223372036854775807",
    "-1.5Gi": "-1536Mi",
    "+5": "+5",
    "05": "05",
    "1.500": "1.500",
    " 1 ": "1",
    ".": "0",
    "-": "0",
    "1e400": "10e399",
    "12345678901234567890123": "12345678901234567890123",
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_canonical_form_matches_kube_apiserver(text: str, canonical: str) -> None:
    assert quantity.canonical(text) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", INVALID_FORMAT),
        ("one", INVALID_FORMAT),
        ("1.2.3", INVALID_FORMAT),
        ("1 Gi", INVALID_FORMAT),
        ("١", INVALID_FORMAT),
        ("1GiB", INVALID_FORMAT),
        ("1K", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e99999999999999999999", "unable to parse quantity's suffix"),
        (".Ei", "unable to parse numeric part of quantity"),
    ],
)
def test_parse_fails_with_the_message_of_kubernetes(text: str, message: str) -> None:
    for read in (quantity.parse, quantity.canonical):
        with pytest.raises(ValueError, match="quantit") as caught:
            read(text)
        assert str(caught.value) == message


def test_numbers_are_quantities() -> None:
    assert quantity.canonical(2) == "2"
    assert quantity.canonical(0.5) == "500m"
    assert quantity.parse(0.1) == Fraction(1, 10)


def test_large_exponents_are_cheap() -> None:
    assert quantity.canonical("1e999999999") == "1e999999999"
    assert quantity.compare("1e999999999", "1") == 1
    assert quantity.canonical("1e-999999999") == "1e-9"


def test_compare_add_and_subtract() -> None:
    assert quantity.compare("1Gi", "1024Mi") == 0
    assert quantity.compare("1G", "1Gi") == -1
    assert quantity.compare("1", "999m") == 1
    assert quantity.add("1500m", "0.5") == "2"
    assert quantity.add("512Mi", "512Mi") == "1Gi"
    assert quantity.add("0", "1Gi") == "1Gi"
    assert quantity.subtract("1Gi", "24Mi") == "1000Mi"
    assert quantity.subtract("1", "1500m") == "-500m"


def test_round_up_and_milli_round_away_from_zero() -> None:
    assert (quantity.round_up("1500m"), quantity.round_up("-1500m"), quantity.round_up("1Ki")) == (2, -2, 1024)
    assert (quantity.milli("1.0005"), quantity.milli("2"), quantity.milli("-0.0001")) == (1001, 2000, -1)
    assert quantity.render(Fraction(3, 2)) == "1500m"
    assert quantity.render(2**31, quantity.BINARY) == "2Gi"
    assert quantity.render(Fraction(1, 3)) == "333333334n"


SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+5"]
quantities = st.builds(
    lambda number, decimals, suffix: f"{number}.{decimals:03d}{suffix}" if decimals else f"{number}{suffix}",
    st.integers(-(10**6), 10**6),
    st.integers(0, 999),
    st.sampled_from([suffix for suffix in SUFFIXES if suffix != "E"]),
)


@given(quantities)
def test_canonical_form_keeps_the_value_and_is_stable(text: str) -> None:
    canonical = quantity.canonical(text)
    if abs(quantity.parse(text)) < 2**63 and quantity.parse(text) >= Fraction(1, 10**6):
        assert quantity.parse(canonical) == quantity.parse(text)
    assert quantity.canonical(canonical) == canonical


@given(quantities, quantities)
def test_sums_are_exact(left: str, right: str) -> None:
    total = quantity.nanos(left) + quantity.nanos(right)
    if abs(total) < 2**63:
        assert quantity.nanos(quantity.add(left, right)) == total


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP x", max_size=12))
def test_any_string_is_parsed_or_rejected(text: str) -> None:
    with suppress(ValueError):
        assert quantity.canonical(quantity.canonical(text)) == quantity.canonical(text)
