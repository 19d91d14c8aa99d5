"""Prompts from all their sources, and errors in prompt files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.support.load_tests import spec

from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest import prompts
from sliceworks.specs.load_test import Lengths

if TYPE_CHECKING:
    from pathlib import Path


def loaded(folder: Path, seed: int = 0, **source: Any) -> prompts.Prompts:
    stages = [{"replay": 1}] if "trace" in source else [{"constant": 1, "for": "1s"}]
    return prompts.load(spec(prompts=source, stages=stages).prompts, seed, folder)


def test_prompts_from_a_file(tmp_path: Path) -> None:
    lines = ['"plain"', '{"prompt": "asked", "max_tokens": 7}', "", '{"messages": [{"role": "user", "content": "hi"}]}']
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    one, two, three = loaded(tmp_path, file="p.jsonl").all
    assert one.chat() == [{"role": "user", "content": "plain"}]
    assert (two.text, two.max_tokens) == ("asked", 7)
    assert three.chat() == [{"role": "user", "content": "hi"}]


def test_shuffle_is_reproducible(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("\n".join(f'"{n}"' for n in range(50)))
    first = [item.text for item in loaded(tmp_path, 3, file="p.jsonl", order="shuffled").all]
    assert first == [item.text for item in loaded(tmp_path, 3, file="p.jsonl", order="shuffled").all]
    assert first != sorted(first, key=int)
    assert sorted(first, key=int) == [str(n) for n in range(50)]


def test_synthetic_prompts_have_the_requested_length(tmp_path: Path) -> None:
    expected = {"input": {"mean": 40, "stddev": 10, "min": 20, "max": 60}, "output": {"mean": 8}, "count": 300}
    result = loaded(tmp_path, synthetic={**expected, "prefix": {"tokens": 10, "groups": 2}}).all
    sizes = [len(item.text.split()) for item in result]
    assert min(sizes) >= 20
    assert max(sizes) <= 60
    assert abs(np.mean(sizes) - 40) < 3
    assert {item.max_tokens for item in result} == {8}
    assert len({" ".join(item.text.split()[:10]) for item in result}) == 2


def test_length_distributions() -> None:
    random = np.random.default_rng(1)
    even = prompts.sample_lengths(Lengths(mean=50, min=1, max=99, distribution="uniform"), 5_000, random)
    assert (even.min(), even.max()) == (1, 99)
    heavy = prompts.sample_lengths(Lengths(mean=100, stddev=100.0, distribution="lognormal"), 20_000, random)
    assert abs(heavy.mean() - 100) < 5
    assert np.median(heavy) < 80


def test_trace_has_times_and_lengths(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"timestamp": 1000, "input_length": 12, "output_length": 5}\n{"timestamp": 1500, "prompt": "x"}\n'
    )
    result = loaded(tmp_path, trace="t.jsonl")
    assert result.due_times is not None
    assert result.due_times.tolist() == [1, 1.5]
    assert (len(result.all[0].text.split()), result.all[0].max_tokens) == (12, 5)


@pytest.mark.parametrize(
    ("content", "problem", "place"),
    [
        ("{", "not a line of JSON", "p.jsonl:1"),
        ('"a"\n7', "a string or an object", "p.jsonl:2"),
        ('{"question": "a"}', "no string in field 'prompt'", "p.jsonl:1"),
        ('{"prompt": "a", "max_tokens": 0}', "max_tokens", "p.jsonl:1"),
        ("\n\n", "no prompts", "p.jsonl"),
    ],
)
def test_invalid_file_is_an_error(tmp_path: Path, content: str, problem: str, place: str) -> None:
    (tmp_path / "p.jsonl").write_text(content)
    with pytest.raises(InvalidDocument, match=problem) as caught:
        loaded(tmp_path, file="p.jsonl")
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"prompt": "a"}', "no timestamp"),
        ('{"timestamp": 1}', "neither"),
        ('{"timestamp": 2, "prompt": "a"}\n{"timestamp": 1, "prompt": "a"}', "not in order"),
    ],
)
def test_invalid_trace_is_an_error(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "t.jsonl").write_text(content)
    with pytest.raises(InvalidDocument, match=problem):
        loaded(tmp_path, trace="t.jsonl")


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="No such file"):
        loaded(tmp_path, file="none.jsonl")
