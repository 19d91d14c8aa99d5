"""Messages of objects that clients read in protobuf again: encoded once for each revision, in bounded memory."""

from __future__ import annotations

from sliceworks.twin.apiserver.handlers.response import _MessageCache
from sliceworks.twin.store.entry import Entry

MESSAGE = b"m" * 1000


def entry(name: str, revision: int = 1) -> Entry:
    return Entry("/pods", "default", name, revision, b"j" * 5000)


def test_messages_are_kept_up_to_their_size() -> None:
    cache = _MessageCache(100 * len(MESSAGE))
    entries = [entry(f"pod-{number}") for number in range(100)]
    for item in entries:
        cache.put(item, MESSAGE)
    assert all(cache.get(item) == MESSAGE for item in entries)
    cache.put(last := entry("last"), MESSAGE)
    assert [item.name for item in entries if cache.get(item) is None] == ["pod-0"]
    assert cache.get(last) == MESSAGE


def test_object_has_one_message() -> None:
    cache = _MessageCache(2 * len(MESSAGE))
    other, old, new = entry("other"), entry("pod", 1), entry("pod", 2)
    for item in (other, old, new, new):
        cache.put(item, MESSAGE)
    assert cache.get(old) is None
    assert cache.get(other) == cache.get(new) == MESSAGE
    assert cache.get(entry("pod", 2)) is None  # that of another twin in this process
