"""One number of a document is changed in place; everything else stays as its author wrote it."""

from __future__ import annotations

import pytest

from sliceworks.base.errors import InvalidDocument
from sliceworks.infra.edits import set_number

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


def test_a_number_is_replaced_and_comments_stay() -> None:
    assert set_number(BLOCK, "environment.yaml", COUNT, 0) == BLOCK.replace("count: 2 ", "count: 0 ")


def test_there_and_back_is_the_same_text() -> None:
    assert set_number(set_number(BLOCK, "environment.yaml", COUNT, 0), "environment.yaml", COUNT, 2) == BLOCK


def test_a_field_that_is_not_written_is_added() -> None:
    text = BLOCK.replace("        count: 2    # two\n", "")
    assert set_number(text, "environment.yaml", COUNT, 0) == text.replace("type: v4-32", "count: 0\n        type: v4-32")


def test_a_mapping_in_one_line_stays_in_one_line() -> None:
    text = "kind: Environment\nspec: {pools: {tpu: {slice: {type: v4-32}}}}\n"
    assert "{slice: {count: 3, type: v4-32}}" in set_number(text, "environment.yaml", COUNT, 3)


def test_only_the_environment_of_several_documents_is_changed() -> None:
    other = "kind: TrainingJob\nspec: {pools: {tpu: {slice: {count: 2}}}}\n"
    assert set_number(f"{other}---\n{BLOCK}", "all.yaml", COUNT, 5) == f"{other}---\n{BLOCK.replace('count: 2 ', 'count: 5 ')}"


def test_what_two_pools_share_is_not_changed_for_both() -> None:
    text = "kind: Environment\nspec: {pools: {tpu: {other: &x {type: v4-32, count: 1}, slice: *x}}}\n"
    with pytest.raises(InvalidDocument, match="cannot be changed by itself"):
        set_number(text, "environment.yaml", COUNT, 0)


def test_a_pool_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidDocument, match=r"has no spec\.pools\.tpu\.slice"):
        set_number("kind: Environment\nspec: {}\n", "environment.yaml", COUNT, 0)
