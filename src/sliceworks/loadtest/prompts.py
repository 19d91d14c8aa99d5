"""What is sent: prompts from a file, made up, or from a trace. Which one a request sends depends on its number alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sliceworks.specs.load_asking import Lengths, Synthetic
    from sliceworks.specs.load_asking import Prompts as Source

# Short, common English words: the usual tokenizers give each of them, with the space before it, one token.
_TEXT = (
    "time water house story light river garden paper table music window letter road hand winter bread stone bird ship cloud field"
)
_WORDS = tuple(_TEXT.split())
NUDGE = "Go on."
"""What a user says after an answer, so that a conversation has another turn."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: a text, or the messages of a chat; and how long the answer may be, where the source says so."""

    text: str = ""
    messages: tuple[dict[str, Any], ...] = ()
    max_tokens: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def chat(self) -> list[dict[str, Any]]:
        """As messages."""
        return list(self.messages) or [{"role": "user", "content": self.text}]


@dataclass(frozen=True, slots=True)
class Prompts:
    """All prompts, in the order in which they are sent; after the last the first comes again."""

    all: tuple[Prompt, ...]
    moments: NDArray[np.float64] | None = None
    """Of a trace: seconds."""

    def index(self, number: int) -> int:
        return number % len(self.all)


def load(source: Source | None, seed: int, folder: Path, text: bytes | None = None) -> Prompts:
    """The prompts of a test; `text` is what a file holds that was fetched from elsewhere."""
    if source is None:
        return Prompts((Prompt(),))
    if source.texts:
        return Prompts(tuple(Prompt(each) for each in source.texts))
    if source.synthetic is not None:
        return Prompts(tuple(_made_up(source.synthetic, np.random.default_rng([seed, 7]))))
    name = source.source
    found = list(_lines(text if text is not None else _content(folder / name), name))
    if source.trace:
        return _trace(found, name, seed)
    prompts = [_prompt(each, source.field, place) for place, each in found]
    if source.order == "shuffled":
        prompts = [prompts[index] for index in np.random.default_rng([seed, 11]).permutation(len(prompts))]
    return Prompts(tuple(prompts))


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidDocument(f"cannot read the prompts: {error.strerror}", place=str(file)) from error


def _lines(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """Each line with its place; one that is no JSON is an error that names it."""
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
        raise InvalidDocument("there are no prompts in it", place=name)


def _prompt(data: Any, key: str, place: str) -> Prompt:
    if isinstance(data, str):
        return Prompt(data)
    if not isinstance(data, dict):
        raise InvalidDocument(f"a prompt is a text or an object, found {type(data).__name__}", place=place)
    most = data.get("max_tokens")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise InvalidDocument(f"max_tokens is a number of tokens, found {most!r}", place=place)
    messages = data.get("messages")
    if isinstance(messages, list) and messages and all(isinstance(each, dict) and "role" in each for each in messages):
        return Prompt(messages=tuple(messages), max_tokens=most)
    if not isinstance(data.get(key), str):
        known = ", ".join(sorted(map(str, data))) or "nothing"
        raise InvalidDocument(
            f"no text in {key!r}, and no messages", place=place, hint=f"prompts.field names the text; here: {known}"
        )
    return Prompt(data[key], max_tokens=most)


def _trace(found: Sequence[tuple[str, Any]], name: str, seed: int) -> Prompts:
    random, prompts, moments = np.random.default_rng([seed, 13]), [], []
    for place, line in found:
        moment = line.get("timestamp") if isinstance(line, dict) else None
        if isinstance(moment, bool) or not isinstance(moment, int | float):
            raise InvalidDocument("no timestamp in milliseconds", place=place)
        moments.append(moment / 1000)
        if "prompt" in line or "messages" in line:
            prompts.append(_prompt(line, "prompt", place))
        elif isinstance(line.get("input_length"), int) and line["input_length"] > 0:
            prompts.append(Prompt(_words(line["input_length"], random), max_tokens=line.get("output_length")))
        else:
            raise InvalidDocument("neither a prompt nor an input_length", place=place)
    times = np.asarray(moments)
    if (np.diff(times) < 0).any():
        wrong = int(np.argmax(np.diff(times) < 0)) + 1
        raise InvalidDocument("the timestamps go back", place=found[wrong][0], hint=f"sort {name} by timestamp")
    return Prompts(tuple(prompts), times)


def _made_up(wanted: Synthetic, random: np.random.Generator) -> Iterator[Prompt]:
    prefix = wanted.prefix
    beginnings = [_words(prefix.tokens, random) for _ in range(prefix.groups)] if prefix else [""]
    sizes = lengths(wanted.input, wanted.count, random)
    answers = lengths(wanted.output, wanted.count, random) if wanted.output else None
    for number, size in enumerate(sizes):
        beginning = beginnings[number % len(beginnings)]
        rest = _words(max(int(size) - (prefix.tokens if prefix else 0), 1), random)
        yield Prompt(f"{beginning} {rest}".strip(), max_tokens=int(answers[number]) if answers is not None else None)


def lengths(wanted: Lengths, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """So many lengths, as they are distributed."""
    if wanted.shape == "uniform":
        return random.integers(wanted.least, wanted.most, count, endpoint=True)
    if wanted.shape == "lognormal":
        spread = np.log1p((wanted.deviation / wanted.mean) ** 2)
        found = random.lognormal(np.log(wanted.mean) - spread / 2, np.sqrt(spread), count)
    else:
        found = random.normal(wanted.mean, wanted.deviation, count)
    return np.clip(np.round(found), wanted.least, wanted.most).astype(np.int64)


def _words(count: int, random: np.random.Generator) -> str:
    return " ".join(_WORDS[index] for index in random.integers(0, len(_WORDS), count))
