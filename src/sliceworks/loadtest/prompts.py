"""Prompts of a load test: from a file, synthetic, or from a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sliceworks.specs.load_test import Lengths, Synthetic
    from sliceworks.specs.load_test import Prompts as Source

# Short common words: most tokenizers encode each, with its leading space, as one token.
_VOCABULARY = (
    "time water house story light river garden paper table music window letter road hand winter bread stone bird ship cloud field"
)
_WORDS = tuple(_VOCABULARY.split())
CONTINUE_PROMPT = "Go on."
"""The user's follow-up message of a multi-turn conversation."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: a string or chat messages, and the maximum tokens if the source gives them."""

    text: str = ""
    messages: tuple[dict[str, Any], ...] = ()
    max_tokens: int | None = None

    @property
    def content(self) -> str:
        """The text of the prompt, or of all its messages."""
        if not self.messages:
            return self.text
        return "\n".join(message["content"] for message in self.messages if isinstance(message.get("content"), str))

    def chat(self) -> list[dict[str, Any]]:
        """The prompt as chat messages."""
        return list(self.messages) or [{"role": "user", "content": self.text}]


@dataclass(frozen=True, slots=True)
class Prompts:
    """All prompts in order; they repeat from the first after the last."""

    all: tuple[Prompt, ...]
    due_times: NDArray[np.float64] | None = None
    """Arrival times of a trace, in seconds."""

    def index(self, number: int) -> int:
        return number % len(self.all)


def load(source: Source | None, seed: int, folder: Path, downloaded: bytes | None = None) -> Prompts:
    """The prompts of a test; `downloaded` is the content of a downloaded file."""
    if source is None:
        return Prompts((Prompt(),))
    if source.texts:
        return Prompts(tuple(Prompt(item) for item in source.texts))
    if source.synthetic is not None:
        return Prompts(tuple(_generate(source.synthetic, np.random.default_rng([seed, 7]))))
    name = source.source
    lines = list(_lines(downloaded if downloaded is not None else _content(folder / name), name))
    if source.trace:
        return _trace(lines, name, seed)
    prompts = [_prompt(line, source.field, place) for place, line in lines]
    if source.order == "shuffled":
        prompts = [prompts[index] for index in np.random.default_rng([seed, 11]).permutation(len(prompts))]
    return Prompts(tuple(prompts))


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidDocument(f"cannot read the prompts: {error.strerror}", place=str(file)) from error


def _lines(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """Each line with its position; raises InvalidDocument for a line that is not JSON."""
    empty = True
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        try:
            yield place, orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InvalidDocument(f"not a line of JSON: {error}", place=place) from error
        empty = False
    if empty:
        raise InvalidDocument("the file contains no prompts", place=name)


def _prompt(data: Any, key: str, place: str) -> Prompt:
    if isinstance(data, str):
        return Prompt(data)
    if not isinstance(data, dict):
        raise InvalidDocument(f"a prompt must be a string or an object, got {type(data).__name__}", place=place)
    max_tokens = data.get("max_tokens")
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise InvalidDocument(f"max_tokens must be a positive integer, got {max_tokens!r}", place=place)
    messages = data.get("messages")
    if isinstance(messages, list) and messages and all(isinstance(message, dict) and "role" in message for message in messages):
        return Prompt(messages=tuple(messages), max_tokens=max_tokens)
    if not isinstance(data.get(key), str):
        known = ", ".join(sorted(map(str, data))) or "nothing"
        raise InvalidDocument(
            f"no string in field {key!r} and no messages", place=place, hint=f"set prompts.field to one of: {known}"
        )
    return Prompt(data[key], max_tokens=max_tokens)


def _trace(lines: Sequence[tuple[str, Any]], name: str, seed: int) -> Prompts:
    random, prompts, timestamps = np.random.default_rng([seed, 13]), [], []
    for place, line in lines:
        timestamp = line.get("timestamp") if isinstance(line, dict) else None
        if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
            raise InvalidDocument("no timestamp in milliseconds", place=place)
        timestamps.append(timestamp / 1000)
        if "prompt" in line or "messages" in line:
            prompts.append(_prompt(line, "prompt", place))
        elif isinstance(line.get("input_length"), int) and line["input_length"] > 0:
            prompts.append(Prompt(_words(line["input_length"], random), max_tokens=line.get("output_length")))
        else:
            raise InvalidDocument("neither a prompt nor an input_length", place=place)
    times = np.asarray(timestamps)
    if (np.diff(times) < 0).any():
        position = int(np.argmax(np.diff(times) < 0)) + 1
        raise InvalidDocument("the timestamps are not in order", place=lines[position][0], hint=f"sort {name} by timestamp")
    return Prompts(tuple(prompts), times)


def _generate(spec: Synthetic, random: np.random.Generator) -> Iterator[Prompt]:
    prefix = spec.prefix
    beginnings = [_words(prefix.tokens, random) for _ in range(prefix.groups)] if prefix else [""]
    input_lengths = sample_lengths(spec.input, spec.count, random)
    output_lengths = sample_lengths(spec.output, spec.count, random) if spec.output else None
    for number, size in enumerate(input_lengths):
        beginning = beginnings[number % len(beginnings)]
        rest = _words(max(int(size) - (prefix.tokens if prefix else 0), 1), random)
        yield Prompt(f"{beginning} {rest}".strip(), max_tokens=int(output_lengths[number]) if output_lengths is not None else None)


def sample_lengths(spec: Lengths, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """`count` random lengths."""
    if spec.distribution == "uniform":
        return random.integers(spec.min, spec.max, count, endpoint=True)
    if spec.distribution == "lognormal":
        spread = np.log1p((spec.stddev / spec.mean) ** 2)
        lengths = random.lognormal(np.log(spec.mean) - spread / 2, np.sqrt(spread), count)
    else:
        lengths = random.normal(spec.mean, spec.stddev, count)
    return np.clip(np.round(lengths), spec.min, spec.max).astype(np.int64)


def _words(count: int, random: np.random.Generator) -> str:
    return " ".join(_WORDS[index] for index in random.integers(0, len(_WORDS), count))
