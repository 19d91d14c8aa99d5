"""Has Cloud Build make the images that an environment wants and its registry does not have, and waits for them.

A build goes on in the cloud whatever becomes of who asked for it: whoever applies again finds it under way, and waits for that one.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks import __version__
from sliceworks.base import clock
from sliceworks.base.errors import CloudError, CloudNotFound, SliceworksError
from sliceworks.cloud import storage
from sliceworks.infra import images, sources
from sliceworks.infra.names import Names

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.cloud import Session
    from sliceworks.infra.targets import Target
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
_GOES_ON = frozenset(("PENDING", "QUEUED", "WORKING"))
_FIRST_LOOK, _LAST_LOOK = 0.5, 10.0


class BuildFailed(SliceworksError):
    """Cloud Build could not make the images: its own words, and where its log is."""


class Begun(NamedTuple):
    """A build that was begun, and the whole names of the images that it makes."""

    build: Object
    images: list[str]


@dataclass(frozen=True, slots=True)
class Builder:
    """The images of one environment. `folder` has our sources; None where there are none to build from."""

    environment: Environment
    target: Target
    folder: Path | None

    def names(self) -> list[str]:
        """What the images are called that are in the registry once all is done."""
        return [images.image(self.environment, name) for name in images.wanted(self.environment)] if self.folder else []

    def missing(self) -> list[str]:
        """The images that are wanted and not in the registry, by their short names."""
        return asyncio.run(self._missing())

    def begin(self) -> Begun | None:
        """Have those that are missing built; None where there is nothing to build. The registry must be there."""

        async def main() -> Begun | None:
            missing = await self._missing() if self.folder is not None else []
            if not missing or self.folder is None:
                return None
            async with self.target.session("cloudbuild") as session:
                build = await self._under_way(session, missing) or await self._submitted(session, missing, self.folder)
                return Begun(build, [images.image(self.environment, name) for name in missing])

        return asyncio.run(main())

    def finish(self, begun: Begun, report: Callable[[str], None]) -> list[str]:
        """Wait for a build; the whole names of what was made."""

        async def main() -> list[str]:
            async with self.target.session("cloudbuild") as session:
                await self._ended(session, begun.build, report)
            return begun.images

        return asyncio.run(main())

    async def _missing(self) -> list[str]:
        wanted = images.wanted(self.environment)
        if not wanted:
            return []
        host, project, repository = Names(self.environment).images.split("/", 2)
        at = f"projects/{project}/locations/{host.removesuffix('-docker.pkg.dev')}/repositories/{repository}"
        async with self.target.session("artifactregistry") as session:
            return [name for name in wanted if not await _is_there(session, f"/v1/{at}/packages/{name}/tags/{__version__}")]

    @property
    def _builds(self) -> str:
        spec = self.environment.spec
        return f"/v1/projects/{spec.project}/locations/{spec.region}/builds"

    async def _under_way(self, session: Session, missing: list[str]) -> Object | None:
        """A build of these images that somebody has begun before."""
        found = await session.call("GET", self._builds, query={"filter": f'tags="{images.tag(self.environment)}"'})
        wanted = {images.image(self.environment, name) for name in missing}
        for each in found.get("builds") or ():
            if each.get("status") in _GOES_ON and wanted <= set(each.get("images") or ()):
                return dict(each)
        return None

    async def _submitted(self, session: Session, missing: list[str], folder: Path) -> Object:
        body = images.build(self.environment, only=missing)
        source = await self._uploaded(folder)
        told = await session.call("POST", self._builds, {**body, "source": source})
        begun: Object = told["metadata"]["build"]
        return begun

    async def _uploaded(self, folder: Path) -> Object:
        """Our sources, in the automation account's bucket until the build has ended."""
        with tempfile.TemporaryDirectory() as work:
            file = Path(work) / "sources.tgz"
            sources.pack(folder, file)
            name = f"sources/{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}.tgz"
            place = storage.Place(self.environment.spec.automation.bucket, name)
            async with self.target.root("storage") as session:
                await storage.upload(session, file, place, "application/gzip")
        return {"storageSource": {"bucket": place.bucket, "object": place.name}}

    async def _ended(self, session: Session, begun: Object, report: Callable[[str], None]) -> None:
        """Wait until it has; raises when it did not go well."""
        pause = _FIRST_LOOK
        while True:
            build = await session.call("GET", f"{self._builds}/{begun['id']}")
            if build.get("status") not in _GOES_ON:
                break
            report(f"build {build['id']} is {str(build['status']).lower()}")
            await clock.sleep(pause)
            pause = min(pause * 1.5, _LAST_LOOK)
        await self._removed((build.get("source") or {}).get("storageSource") or {})
        if build.get("status") != "SUCCESS":
            said = build.get("statusDetail") or (build.get("failureInfo") or {}).get("detail") or "it does not say why"
            raise BuildFailed(
                f"images: the build ended with {build.get('status')}: {' '.join(str(said).split())}",
                hint=f"its log: {build.get('logUrl')}; apply goes on with a new one",
            )

    async def _removed(self, source: Object) -> None:
        """Sources that were uploaded for a build; that they stay would harm nothing but a bucket that is to go."""
        if source.get("bucket") == self.environment.spec.automation.bucket:
            place = storage.Place(str(source["bucket"]), str(source["object"]))
            with suppress(CloudError):
                async with self.target.root("storage") as session:
                    await session.raw("DELETE", place.path)


async def _is_there(session: Session, path: str) -> bool:
    try:
        await session.call("GET", path)
    except CloudNotFound:
        return False
    return True
