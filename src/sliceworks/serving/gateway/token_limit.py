"""The token limit of a model: how many completion tokens a request asks for, in all its completions."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.http.messages import HttpError, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Tensor = tuple[str, Callable[[], Iterable[Any] | None]]
    """A name, and a function that reads the values; None if they cannot be read."""

OPENAI_LIMITS = ("max_tokens", "max_completion_tokens")
"""The fields of OpenAI's API; a server that speaks it obeys either."""
_OTHER_LIMITS = (
    *("max_output_tokens", "max_new_tokens", "max_tokens_to_sample", "max_gen_toks", "n_predict", "num_predict"),
    *("max_decode_steps", "max_decode_tokens", "request_output_len", "tokens_to_generate"),
)
"""The same under the names of other servers, which some obey beside OpenAI's."""
_BUDGETS = ("budget_tokens", "thinking_budget", "thinking_token_budget", "max_reasoning_tokens")
_COUNTS = ("n", "best_of", "num_return_sequences", "num_completions", "candidate_count", "num_samples", "num_beams", "beam_width")
_ENCODED = "sampling_parameters"
"""All options of Triton's vLLM backend, as a string with JSON: it ignores those beside it."""
_CONTAINERS = ("parameters", "options", "sampling_params", "extra_body", "generation_config", "reasoning", "thinking")
"""Objects in which servers also look for these fields."""
FIELDS = (*OPENAI_LIMITS, *_OTHER_LIMITS, *_BUDGETS, *_COUNTS, *_CONTAINERS, _ENCODED)
_MAX_ENCODED = 64 * 1024
_LIMITING = frozenset(name.replace("_", "") for name in (*OPENAI_LIMITS, *_OTHER_LIMITS, *_BUDGETS))
_COUNTING = frozenset(name.replace("_", "") for name in _COUNTS)


def requested_max_tokens(data: Mapping[str, Any]) -> int | None:
    """The larger of the request's token limits (`max_tokens` and `max_completion_tokens`); None if neither is set."""
    return max((limit for name in OPENAI_LIMITS if (limit := _integer(data, name)) is not None), default=None)


def check_max_tokens(data: Mapping[str, Any], limit: int) -> None:
    """Raise if the request asks for more completion tokens than the limit, in all its completions."""
    count = _completions(data)
    requested = max((tokens for _, tokens in _limits(data)), default=None)
    if requested is not None and requested * count > limit:
        raise too_many_tokens(requested, limit, count)
    if count > limit:
        raise too_many_tokens(1, limit, count)


def check_tensors(tensors: Iterable[Tensor], limit: int) -> int:
    """The completion tokens that tensors ask for, 0 if they do not say: all their values together, a batch has one per prompt.

    Raises if they ask for more than the limit.

    The values of other tensors, which may be many, are not read.
    """
    tokens, counts, encoded = 1, 1, 0
    for name, read in tensors:
        folded = fold(name)
        if folded == fold(_ENCODED):
            for text in _values(name, read(), limit):
                check_max_tokens({_ENCODED: text}, limit)
                encoded += reserved_tokens({_ENCODED: text}, None)
        elif folded in _LIMITING | _COUNTING:
            numbers = [_integer({name: value}, name) or 0 for value in _values(name, read(), limit)]
            if min(numbers, default=0) < 1:
                raise bad_request(f"{name}: must be at least 1", param=name)
            if folded in _LIMITING:
                tokens = max(tokens, sum(numbers))
            else:
                counts = max(counts, *numbers)
    if tokens * counts > limit:
        raise too_many_tokens(tokens, limit, counts)
    return max(encoded, tokens * counts if tokens * counts > 1 else 0)


def _values(name: str, values: Iterable[Any] | None, limit: int) -> list[Any]:
    """The values of a tensor; each is at least one token."""
    if values is None:
        raise bad_request(f"{name}: its values cannot be read, send them as JSON or as integers", param=name)
    first = list(islice(values, limit + 1))
    if len(first) > limit:
        raise too_many_tokens(len(first), limit)
    return first


def fold(name: str) -> str:
    """A name as the most tolerant server compares it."""
    return name.casefold().replace("_", "").replace("-", "")


def reserved_tokens(data: Mapping[str, Any], default: int | None) -> int:
    """The completion tokens that a request may use; `default` if it sets no limit."""
    requested = max((tokens for _, tokens in _limits(data)), default=0)
    return requested * _completions(data) or default or 0


def limit_tokens(data: dict[str, Any], limit: int, fields: tuple[str, ...] = OPENAI_LIMITS) -> bytes | None:
    """The request with a token limit; None if it has one within the limit in `fields`, those that its server obeys.

    Raises if the request asks for more. A server ignores fields that it does not know, so a limit under another name does not
    count.
    """
    check_max_tokens(data, limit)
    if any(data.get(name) is not None for name in fields):
        return None
    return set_max_tokens(data, limit // _completions(data))


def set_max_tokens(data: Mapping[str, Any], limit: int) -> bytes:
    """The request with a token limit. Null limits are removed: parsers disagree about duplicate fields."""
    other = {name: value for name, value in data.items() if value is not None or name not in OPENAI_LIMITS}
    return orjson.dumps({**other, "max_tokens": min(limit, requested_max_tokens(data) or limit)})


def too_many_tokens(requested: int, limit: int, completions: int = 1) -> HttpError:
    """The request asks for more tokens than the limit."""
    if completions == 1:
        message = f"max_tokens: must be at most {limit}, got {requested}"
    else:
        message = f"max_tokens: must be at most {limit} for all completions, got {completions} completions of {requested}"
    return HttpError(400, "too_many_tokens", message, param="max_tokens")


def _limits(data: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for prefix, part in _parts(data):
        for name in (*OPENAI_LIMITS, *_OTHER_LIMITS, *_BUDGETS):
            limit = _integer(part, name, prefix)
            if limit is None:
                continue
            if limit < 1:
                raise bad_request(f"{prefix}{name}: must be at least 1, got {limit}", param=f"{prefix}{name}")
            yield f"{prefix}{name}", limit


def _completions(data: Mapping[str, Any]) -> int:
    """How many completions the request asks for: candidates of each prompt."""
    candidates = 1
    for prefix, part in _parts(data):
        for name in _COUNTS:
            count = _integer(part, name, prefix)
            if count is not None and count < 1:
                raise bad_request(f"{prefix}{name}: must be at least 1, got {count}", param=f"{prefix}{name}")
            candidates = max(candidates, count or 1)
    prompt = data.get("prompt")
    is_several = isinstance(prompt, list) and any(isinstance(item, str | list) for item in prompt)
    return candidates * (len(prompt) if is_several and isinstance(prompt, list) else 1)


def _parts(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "", data
    for name in _CONTAINERS:
        if isinstance(part := data.get(name), dict):
            yield f"{name}.", part
            yield from ((f"{name}.{inner}.", below) for inner in _CONTAINERS if isinstance(below := part.get(inner), dict))
            if (text := part.get(_ENCODED)) is not None:
                yield f"{name}.{_ENCODED}.", _decode(text)
    if (text := data.get(_ENCODED)) is not None:
        yield f"{_ENCODED}.", _decode(text)


def _decode(text: Any) -> Mapping[str, Any]:
    """The options in a string with JSON, which must have a limit: a server that reads it ignores all others."""

    def check_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [fold(name) for name, _ in pairs]
        for name in FIELDS:
            if names.count(fold(name)) != sum(given == name for given, _ in pairs) or names.count(fold(name)) > 1:
                raise bad_request(f"{_ENCODED}.{name}: duplicate field, or another spelling of it", param=_ENCODED)
        return dict(pairs)

    try:
        options = json.loads(text, object_pairs_hook=check_names) if isinstance(text, str) and len(text) < _MAX_ENCODED else None
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict) or options.get("max_tokens") is None:
        raise bad_request(f"{_ENCODED}: must be a JSON object with max_tokens, as a string", param=_ENCODED)
    return options


def _integer(data: Mapping[str, Any], name: str, prefix: str = "") -> int | None:
    value = data.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise bad_request(f"{prefix}{name}: must be an integer", param=f"{prefix}{name}")
    return value
