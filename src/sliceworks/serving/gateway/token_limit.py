"""The token limit of a model: how many completion tokens a request asks for, in all its completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.http.messages import HttpError, bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OPENAI_LIMITS = ("max_tokens", "max_completion_tokens")
"""The fields of OpenAI's API; a server that speaks it obeys either."""
_OTHER_LIMITS = ("max_output_tokens", "max_new_tokens", "n_predict", "num_predict", "max_decode_steps")
"""The same under the names of other servers, which some obey beside OpenAI's."""
_BUDGETS = ("budget_tokens", "thinking_budget", "thinking_token_budget", "max_reasoning_tokens")
_COUNTS = ("n", "best_of", "num_return_sequences", "num_samples", "beam_width")
_CONTAINERS = ("parameters", "options", "sampling_params", "extra_body", "generation_config", "reasoning", "thinking")
"""Objects in which servers also look for these fields."""
FIELDS = (*OPENAI_LIMITS, *_OTHER_LIMITS, *_BUDGETS, *_COUNTS, *_CONTAINERS)


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


def _integer(data: Mapping[str, Any], name: str, prefix: str = "") -> int | None:
    value = data.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise bad_request(f"{prefix}{name}: must be an integer", param=f"{prefix}{name}")
    return value
