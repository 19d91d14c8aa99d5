"""The parts of a pod that security checks look at, and the words they use about them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.auth.rules import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Pod = Mapping[str, Any]
    Part = Mapping[str, Any]

_PROFILES = {"RuntimeDefault", "Localhost"}


def spec_of(pod: Pod) -> Part:
    found: Part = pod.get("spec") or {}
    return found


def containers_of(pod: Pod) -> list[Part]:
    spec = spec_of(pod)
    return [part for key in ("initContainers", "containers", "ephemeralContainers") for part in spec.get(key) or ()]


def context_of(part: Part) -> Part:
    found: Part = part.get("securityContext") or {}
    return found


def who_sets(pod: Pod, bad: Callable[[Part], Iterable[str]]) -> tuple[list[str], list[str]]:
    """Who sets something bad, the pod or some containers, in words; and what they set, in order."""
    values = set(bad(spec_of(pod)))
    setters = ["pod"] if values else []
    containers = []
    for part in containers_of(pod):
        found = set(bad(part))
        if found:
            containers.append(part.get("name", ""))
            values |= found
    return setters + ([named_all("container", containers)] if containers else []), sorted(values)


def adding_beyond(pod: Pod, allowed: set[str]) -> tuple[str, str]:
    """The containers that add capabilities beyond those allowed, and these capabilities."""
    found = {
        part.get("name", ""): set((context_of(part).get("capabilities") or {}).get("add") or ()) - allowed
        for part in containers_of(pod)
    }
    bad = [name for name, added in found.items() if added]
    return (named_all("container", bad), quoted_all(sorted(set().union(*found.values())))) if bad else ("", "")


def bad_profile(part: Part, key: str) -> list[str]:
    profile = context_of(part).get(key)
    kind = str((profile or {}).get("type", ""))
    return [kind] if profile is not None and kind not in _PROFILES else []


def annotation_good(value: str) -> bool:
    return value in {"", "runtime/default"} or value.startswith("localhost/")


def in_user_namespace(pod: Pod) -> bool:
    return spec_of(pod).get("hostUsers") is False


def is_windows(pod: Pod) -> bool:
    return (spec_of(pod).get("os") or {}).get("name") == "windows"


def plural_of(word: str, items: Iterable[Any]) -> str:
    return word if len(list(items)) == 1 else f"{word}s"


def use_of(items: Iterable[Any]) -> str:
    return "uses" if len(list(items)) == 1 else "use"


def quoted_all(values: Iterable[str]) -> str:
    return ", ".join(quoted(value) for value in values)


def named_all(word: str, names: list[str]) -> str:
    return f"{plural_of(word, names)} {quoted_all(names)}"
