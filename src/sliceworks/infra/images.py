"""Our container images: which an Environment needs, the sources they are built from, and their Cloud Build build."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks import __version__
from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import CloudError, CloudNotFound, SliceworksError, UsageError
from sliceworks.base.retry import Backoff
from sliceworks.cloud import storage
from sliceworks.infra.stages import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sliceworks.cloud import Session
    from sliceworks.infra.target import Target
    from sliceworks.specs.environment import Environment

TERRAFORM_FILES = (
    *(f"*/*/{name}.tf" for name in ("main", "outputs", "variables", "versions")),
    "modules/*/README.md",
    "modules/*/example/main.tf",
    "modules/bootstrap/templates/*.tftpl",
    "modules/load-metrics/columns.json",
    "modules/load-metrics/record.proto",
)
"""Files of the Terraform folder that are shipped."""

WHEEL_FILES = (
    *(f"src/sliceworks/**/*.{kind}" for kind in ("py", "typed", "css", "gz", "html", "js", "json", "svg", "yaml")),
    *(f"terraform/{pattern}" for pattern in TERRAFORM_FILES),
    "deploy/controllers/install.yaml",
    *(f"examples/**/*.{kind}" for kind in ("yaml", "jsonl", "md", "py", "env")),
    "examples/forecast/*.json",
)
"""Files of a checkout that make up the wheel; pyproject.toml lists the same."""

DOCKERFILE = "deploy/Dockerfile"
_CHECKOUT_FILES = ("pyproject.toml", "README.md", "LICENSE", DOCKERFILE)
IMAGE_FILES = (
    *_CHECKOUT_FILES,
    *WHEEL_FILES,
    "deploy/requirements/*.txt",
    "deploy/converter/**/*.py",
)
"""Files of a checkout that the images are built from."""


def select_files(folder: Path, patterns: Iterable[str], below: str = "") -> list[Path]:
    """Files of a folder that match the patterns, optionally only those `below` a path; hidden files are skipped."""
    paths = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    candidates = (path for path in paths if path.is_relative_to(folder / below))
    return sorted(path for path in candidates if not any(part.startswith(".") for part in path.relative_to(folder).parts))


Object = dict[str, Any]
FILE = "cloudbuild.images.yaml"
_DOCKER = "gcr.io/cloud-builders/docker:24.0.9"
_TIMEOUT = "3600s"


def image(environment: Environment, name: str) -> str:
    """The full name of an image in the environment's registry."""
    return f"{Names(environment).images}/{name}:{__version__}"


def required_images(environment: Environment) -> list[str]:
    """The images that the Environment lists or its add-ons need."""
    registry, addons = environment.spec.registry, environment.spec.addons
    if registry is None:
        return []
    needed = {"gateway": addons.gateway, "controllers": (addons.slices or addons.graphs) and not addons.image}
    return [*registry.build, *(name for name, needs in needed.items() if needs and name not in registry.build)]


def tag(environment: Environment) -> str:
    """The tag of image builds of an environment."""
    return f"{environment.metadata.name}-images"


def build(environment: Environment, *, only: Sequence[str] | None = None) -> Object:
    """The Cloud Build build of all required images, or of some; its steps run in parallel."""
    images, names = required_images(environment) if only is None else only, Names(environment)
    account = names.account(names.build_account) if names.build_account else names.automation_account
    return {
        "steps": [_step(name) for name in images],
        "images": [f"${{_REGISTRY}}/{name}:${{_TAG}}" for name in images],
        "substitutions": {"_REGISTRY": names.images, "_TAG": __version__, "_SERVICE_ACCOUNT": account},
        "serviceAccount": f"projects/{environment.spec.project}/serviceAccounts/${{_SERVICE_ACCOUNT}}",
        "options": build_options(environment, default_machine="e2-highcpu-8"),
        "tags": [tag(environment)],
        "timeout": _TIMEOUT,
    }


def build_options(environment: Environment, *, default_machine: str = "") -> Object:
    """Options of a build: where it logs, and its machine."""
    machine = environment.spec.automation.build_machine_type or default_machine
    machine_type = {"machineType": machine.upper().replace("-", "_")} if machine else {}
    return {"logging": "CLOUD_LOGGING_ONLY", "dynamicSubstitutions": True, **machine_type}


def _step(name: str) -> Object:
    args = ["build", f"--file={DOCKERFILE}", f"--target={name}", f"--tag=${{_REGISTRY}}/{name}:${{_TAG}}", "."]
    return {"id": f"build {name}", "name": _DOCKER, "args": args, "waitFor": ["-"]}


def command(environment: Environment) -> str:
    """The command that submits the build from a checkout; empty if no image is required."""
    spec = environment.spec
    submit = f"gcloud builds submit SOURCES --project {spec.project} --region {spec.region} --config {FILE}"
    return f"{submit}\n" if required_images(environment) else ""


def files(environment: Environment) -> dict[str, str]:
    """The build file by name; empty if no image is required."""
    return {FILE: yaml_documents.dump(build(environment))} if required_images(environment) else {}


def own_checkout() -> Path | None:
    """The checkout that this program runs from; None if it is installed."""
    folder = Path(__file__).parents[3]
    return folder if _is_checkout(folder) else None


def checkout_in(folder: Path) -> Path:
    """Returns the folder; raises UsageError if it is not a Sliceworks checkout."""
    if not _is_checkout(folder):
        raise UsageError(f"{folder} is not a Sliceworks checkout", hint=f"a checkout has {', '.join(_CHECKOUT_FILES)}")
    return folder


def pack_sources(sources: Path, file: Path) -> None:
    """Pack the sources of a build into a reproducible archive."""
    with (
        file.open("wb") as output,
        gzip.GzipFile(fileobj=output, mode="wb", compresslevel=4, mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in select_files(sources, IMAGE_FILES):
            archive.add(path, path.relative_to(sources).as_posix(), recursive=False, filter=_normalize)


def _is_checkout(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _CHECKOUT_FILES)


def _normalize(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Clear owner and time, so that equal sources give equal archives."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


_ACTIVE = frozenset(("PENDING", "QUEUED", "WORKING"))
_POLLING = Backoff(first=0.5, factor=1.5, cap=10.0, jitter=0.0)


class BuildFailed(SliceworksError):
    """Cloud Build failed to build the images."""


class RunningBuild(NamedTuple):
    """A submitted build and the full names of its images."""

    build: Object
    images: list[str]


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """Builds the images of one environment from the sources in `folder`; None if there are no sources."""

    environment: Environment
    target: Target
    folder: Path | None

    def names(self) -> list[str]:
        """Full names of the images after the build."""
        return [image(self.environment, name) for name in required_images(self.environment)] if self.folder else []

    def missing(self) -> list[str]:
        """Short names of required images that are not in the registry."""
        return asyncio.run(self._missing())

    def begin(self) -> RunningBuild | None:
        """Submit a build of the missing images; None if none is missing. The registry must exist."""

        async def main() -> RunningBuild | None:
            missing = await self._missing() if self.folder is not None else []
            if not missing or self.folder is None:
                return None
            async with self.target.session("cloudbuild") as session:
                build = await self._find_active(session, missing) or await self._submit(session, missing, self.folder)
                return RunningBuild(build, [image(self.environment, name) for name in missing])

        return asyncio.run(main())

    def finish(self, begun: RunningBuild, report: Callable[[str], None]) -> list[str]:
        """Wait for a build; returns the full names of its images."""

        async def main() -> list[str]:
            async with self.target.session("cloudbuild") as session:
                await self._wait(session, begun.build, report)
            return begun.images

        return asyncio.run(main())

    async def _missing(self) -> list[str]:
        required = required_images(self.environment)
        if not required:
            return []
        host, project, repository = Names(self.environment).images.split("/", 2)
        at = f"projects/{project}/locations/{host.removesuffix('-docker.pkg.dev')}/repositories/{repository}"
        async with self.target.session("artifactregistry") as session:
            return [name for name in required if not await _exists(session, f"/v1/{at}/packages/{name}/tags/{__version__}")]

    @property
    def _builds(self) -> str:
        spec = self.environment.spec
        return f"/v1/projects/{spec.project}/locations/{spec.region}/builds"

    async def _find_active(self, session: Session, missing: list[str]) -> Object | None:
        """An active build that includes these images."""
        builds = await session.call("GET", self._builds, query={"filter": f'tags="{tag(self.environment)}"'})
        missing_images = {image(self.environment, name) for name in missing}
        for item in builds.get("builds") or ():
            if item.get("status") in _ACTIVE and missing_images <= set(item.get("images") or ()):
                return dict(item)
        return None

    async def _submit(self, session: Session, missing: list[str], folder: Path) -> Object:
        body = build(self.environment, only=missing)
        source = await self._upload(folder)
        operation = await session.call("POST", self._builds, {**body, "source": source})
        build_resource: Object = operation["metadata"]["build"]
        return build_resource

    async def _upload(self, folder: Path) -> Object:
        """Upload the sources to the automation bucket; they are deleted after the build."""
        with tempfile.TemporaryDirectory() as work:
            file = Path(work) / "sources.tgz"
            pack_sources(folder, file)
            name = f"sources/{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}.tgz"
            place = storage.ObjectUrl(self.environment.spec.automation.bucket, name)
            async with self.target.root("storage") as session:
                await storage.upload(session, file, place, "application/gzip")
        return {"storageSource": {"bucket": place.bucket, "object": place.name}}

    async def _wait(self, session: Session, begun: Object, report: Callable[[str], None]) -> None:
        """Wait until the build ends; raises BuildFailed unless it succeeded."""
        build = begun
        for pause in _POLLING.delays():
            build = await session.call("GET", f"{self._builds}/{begun['id']}")
            if build.get("status") not in _ACTIVE:
                break
            report(f"build {build['id']} is {str(build['status']).lower()}")
            await clock.sleep(pause)
        await self._delete_sources((build.get("source") or {}).get("storageSource") or {})
        if build.get("status") != "SUCCESS":
            reason = build.get("statusDetail") or (build.get("failureInfo") or {}).get("detail") or "no reason given"
            raise BuildFailed(
                f"images: the build ended with status {build.get('status')}: {' '.join(str(reason).split())}",
                hint=f"build log: {build.get('logUrl')}; `sliceworks env apply` starts a new build",
            )

    async def _delete_sources(self, source: Object) -> None:
        """Delete the uploaded sources; errors are ignored, since leftovers only block deleting the bucket."""
        if source.get("bucket") == self.environment.spec.automation.bucket:
            place = storage.ObjectUrl(str(source["bucket"]), str(source["object"]))
            with suppress(CloudError):
                async with self.target.root("storage") as session:
                    await session.send_raw("DELETE", place.path)


async def _exists(session: Session, path: str) -> bool:
    try:
        await session.call("GET", path)
    except CloudNotFound:
        return False
    return True
