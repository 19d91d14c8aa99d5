"""A number of a document is changed in place; everything else stays unchanged."""

from __future__ import annotations

import pytest

from sliceworks.base.errors import InvalidDocument
from sliceworks.infra.environment_file import set_number

COUNT = ("spec", "pools", "tpu", "slice", "count")
BLOCK = """# ours
kind: Environment
spec:
  pools:
    tpu:
      slice:        # für Nächte
        type: v4-32
        count: 2    # two
"""


def test_number_is_replaced_and_comments_are_kept() -> None:
    assert set_number(BLOCK, "environment.yaml", COUNT, 0) == BLOCK.replace("count: 2 ", "count: 0 ")


def test_reverted_edit_restores_the_file() -> None:
    assert set_number(set_number(BLOCK, "environment.yaml", COUNT, 0), "environment.yaml", COUNT, 2) == BLOCK


def test_missing_field_is_added() -> None:
    text = BLOCK.replace("        count: 2    # two\n", "")
    assert set_number(text, "environment.yaml", COUNT, 0) == text.replace("type: v4-32", "count: 0\n        type: v4-32")


def test_flow_mapping_is_kept() -> None:
    text = "kind: Environment\nspec: {pools: {tpu: {slice: {type: v4-32}}}}\n"
    assert "{slice: {count: 3, type: v4-32}}" in set_number(text, "environment.yaml", COUNT, 3)


def test_only_the_environment_document_is_changed() -> None:
    other = "kind: TrainingJob\nspec: {pools: {tpu: {slice: {count: 2}}}}\n"
    assert set_number(f"{other}---\n{BLOCK}", "all.yaml", COUNT, 5) == f"{other}---\n{BLOCK.replace('count: 2 ', 'count: 5 ')}"


def test_shared_anchor_is_not_changed() -> None:
    text = "kind: Environment\nspec: {pools: {tpu: {other: &x {type: v4-32, count: 1}, slice: *x}}}\n"
    with pytest.raises(InvalidDocument, match="cannot be changed alone"):
        set_number(text, "environment.yaml", COUNT, 0)


def test_missing_pool_is_an_error() -> None:
    with pytest.raises(InvalidDocument, match=r"has no spec\.pools\.tpu\.slice"):
        set_number("kind: Environment\nspec: {}\n", "environment.yaml", COUNT, 0)
