"""Pieces of sentences."""

from __future__ import annotations

from sliceworks.base.words import closest, counted


def test_a_number_has_its_noun_in_the_right_form() -> None:
    assert [counted(1, "job"), counted(2, "job"), counted(1200, "query", "queries")] == ["1 job", "2 jobs", "1,200 queries"]


def test_the_most_similar_name_is_asked_for() -> None:
    assert closest("tpu-trainin", ["serving", "tpu-training"]) == "did you mean tpu-training?"
    assert closest("replicaset", ["Deployment", "ReplicaSet"]) == "did you mean ReplicaSet?"


def test_a_name_like_no_other_gets_no_question() -> None:
    assert closest("zebra", ["serving", "training"]) == ""
    assert closest("zebra", []) == ""


def test_how_alike_names_must_be_can_be_told() -> None:
    assert closest("abcd", ["abxy"]) == ""
    assert closest("abcd", ["abxy"], cutoff=0.5) == "did you mean abxy?"
