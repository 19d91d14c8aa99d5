"""Quantities: values, what the API server prints back, and its words for what is none."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base import quantity

WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

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


@pytest.mark.parametrize(("text", "printed"), CANONICAL.items())
def test_printed_as_the_server_prints_it(text: str, printed: str) -> None:
    assert quantity.canonical(text) == printed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", WRONG_FORMAT),
        ("one", WRONG_FORMAT),
        ("1.2.3", WRONG_FORMAT),
        ("1 Gi", WRONG_FORMAT),
        ("١", WRONG_FORMAT),
        ("1GiB", WRONG_FORMAT),
        ("1K", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e99999999999999999999", "unable to parse quantity's suffix"),
        (".Ei", "unable to parse numeric part of quantity"),
    ],
)
def test_refused_in_kubernetes_words(text: str, words: str) -> None:
    for read in (quantity.parse, quantity.canonical):
        with pytest.raises(ValueError, match="quantit") as caught:
            read(text)
        assert str(caught.value) == words


def test_numbers_are_quantities_too() -> None:
    assert quantity.canonical(2) == "2"
    assert quantity.canonical(0.5) == "500m"
    assert quantity.parse(0.1) == Fraction(1, 10)


def test_an_exponent_of_nine_digits_costs_nothing() -> None:
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


def test_whole_units_and_thousandths_are_rounded_away_from_zero() -> None:
    assert (quantity.whole("1500m"), quantity.whole("-1500m"), quantity.whole("1Ki")) == (2, -2, 1024)
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
def test_the_printed_form_has_the_same_value_and_stays(text: str) -> None:
    printed = quantity.canonical(text)
    if abs(quantity.parse(text)) < 2**63 and quantity.parse(text) >= Fraction(1, 10**6):
        assert quantity.parse(printed) == quantity.parse(text)
    assert quantity.canonical(printed) == printed


@given(quantities, quantities)
def test_sums_are_exact(one: str, other: str) -> None:
    total = quantity.nanos(one) + quantity.nanos(other)
    if abs(total) < 2**63:
        assert quantity.nanos(quantity.add(one, other)) == total


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP x", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert quantity.canonical(quantity.canonical(text)) == quantity.canonical(text)
