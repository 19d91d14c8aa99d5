"""Prompts from a bucket, and results into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudError, InvalidDocument, Unreachable
from sliceworks.cloud import Session, connecting, storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def is_place(text: str) -> bool:
    """Whether a name is that of an object in a bucket."""
    return storage.is_place(text)


def session(cloud: Mapping[str, Any]) -> Session:
    """With Cloud Storage, or what stands for it: `cloud` has its `endpoint` and a `token`."""
    return Session(cloud.get("endpoint") or storage.ENDPOINT, connecting.credentials(cloud.get("token", "")))


async def fetch(place: str, file: Path, cloud: Mapping[str, Any]) -> Path:
    """An object of a bucket as a file; what cannot be read is one line."""
    try:
        async with session(cloud) as opened:
            await storage.download(opened, storage.Place.of(place), file)
    except (CloudError, Unreachable) as error:
        raise InvalidDocument(f"cannot be read: {error.message}", place=place, hint=error.hint) from error
    return file


async def expect_room(place: str, cloud: Mapping[str, Any]) -> None:
    """Whether results may be put below `gs://bucket/folder`: asked before a test, not after it."""
    wanted, bucket = "storage.objects.create", storage.Place.of(f"{place.rstrip('/')}/x").bucket
    try:
        async with session(cloud) as opened:
            found = await opened.call("GET", f"/storage/v1/b/{bucket}/iam/testPermissions", query={"permissions": wanted})
    except (CloudError, Unreachable) as error:
        raise InvalidDocument(f"results cannot be put there: {error.message}", place=place, hint=error.hint) from error
    if wanted not in (found.get("permissions") or ()):
        raise InvalidDocument(f"results cannot be put there: {wanted} is missing", place=place)


async def store(files: Iterable[Path], place: str, cloud: Mapping[str, Any]) -> int:
    """Files as objects below `gs://bucket/folder`; how many there are."""
    count = 0
    async with session(cloud) as opened:
        for file in files:
            await storage.upload(opened, file, storage.Place.of(f"{place.rstrip('/')}/{file.name}"))
            count += 1
    return count
