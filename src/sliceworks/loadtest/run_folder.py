"""The folder of a run: opened before the first request, finalized into tables and results, recovered after an interruption;
its files are copied from and to Cloud Storage.
"""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import orjson

from sliceworks.base import clock
from sliceworks.base.errors import CloudError, InvalidDocument, SliceworksError, Unreachable
from sliceworks.cloud import Session, credentials, storage
from sliceworks.loadtest import load_plan, request_log, request_table, request_texts, results, token_count
from sliceworks.loadtest.runner import TEST_FILE, Outcome
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.loadtest.load_plan import Plan
    from sliceworks.specs.load_test import Tokens


def session(cloud: Mapping[str, Any]) -> Session:
    """A Cloud Storage session; `cloud` may hold another `endpoint` and `token`."""
    return Session(cloud.get("endpoint") or storage.ENDPOINT, credentials.find_credentials(cloud.get("token", "")))


async def download(place: str, file: Path, cloud: Mapping[str, Any]) -> Path:
    """Download an object to a file; raise InvalidDocument if it cannot be read."""
    try:
        async with session(cloud) as opened:
            await storage.download(opened, storage.ObjectUrl.parse(place), file)
    except (CloudError, Unreachable) as error:
        raise InvalidDocument(f"cannot read: {error.message}", place=place, hint=error.hint) from error
    return file


async def check_writable(place: str, cloud: Mapping[str, Any]) -> None:
    """Check before the test that results can be uploaded to `gs://bucket/folder`."""
    permission, bucket = "storage.objects.create", storage.ObjectUrl.parse(f"{place.rstrip('/')}/x").bucket
    try:
        async with session(cloud) as opened:
            response = await opened.call("GET", f"/storage/v1/b/{bucket}/iam/testPermissions", query={"permissions": permission})
    except (CloudError, Unreachable) as error:
        raise InvalidDocument(f"cannot write results: {error.message}", place=place, hint=error.hint) from error
    if permission not in (response.get("permissions") or ()):
        raise InvalidDocument(f"cannot write results: {permission} is missing", place=place)


async def upload(files: Iterable[Path], place: str, cloud: Mapping[str, Any]) -> int:
    """Upload files to `gs://bucket/folder`; return their number."""
    count = 0
    async with session(cloud) as opened:
        for file in files:
            await storage.upload(opened, file, storage.ObjectUrl.parse(f"{place.rstrip('/')}/{file.name}"))
            count += 1
    return count


MANIFEST_FILE = "manifest.json"
PROMPTS_FILE = "prompts.jsonl"
"""Downloaded prompts, in the run folder during a run."""

TOKENIZER_FILE = "tokenizer.json"
_LOCK_TIMEOUT = 30.0
_NO_TEXTS = frozenset({"oip-infer", "http"})
"""APIs whose responses have no text and so no tokens."""

INTERRUPTED_NOTE = "interrupted; recovered from what its workers had written"


@dataclass(frozen=True, slots=True)
class RunManifest:
    """The description of a run; `files` is the folder of its document."""

    name: str
    tags: dict[str, str]
    files: str
    url: str
    spec: dict[str, Any]


@contextmanager
def open_run(folder: Path, manifest: RunManifest) -> Iterator[None]:
    """Create and lock the run folder, and write the description."""
    try:
        folder.mkdir(parents=True)
        (folder / MANIFEST_FILE).write_bytes(orjson.dumps({"format": results.FORMAT_VERSION, **asdict(manifest)}))
    except OSError as error:
        raise SliceworksError(f"cannot write runs to {folder}: {error.strerror}") from error
    with _locked(folder):
        try:
            yield
        finally:
            measured = any(file.stat().st_size for file in folder.glob("worker-*.rows")) or _is_merged(folder)
            for item in () if measured else (MANIFEST_FILE, PROMPTS_FILE, TOKENIZER_FILE):  # there is nothing to recover
                (folder / item).unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / MANIFEST_FILE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SliceworksError(
                f"the run in {folder} is still running", hint="Ctrl-C stops it and keeps what was measured"
            ) from error
        yield


def finalize(folder: Path, plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """Write tables and results, then delete the logs."""
    manifest = _load_manifest(folder)
    try:
        if not _is_merged(folder):
            request_table.merge_records(folder)
        if plan.spec.tokens is not None:
            token_count.count_tokens(
                folder, plan.prompts, token_count.load_tokenizer(tokenizer_file(folder, plan.spec.tokens, Path(manifest.files)))
            )
        if plan.spec.results.texts:
            request_texts.write_texts(folder, plan.prompts)
        token_counts = {} if plan.spec.api in _NO_TEXTS else token_count.token_sources(folder)
        result = results.write_results(manifest.name, plan, outcome, folder, manifest.tags, tokens=token_counts)
    except (OSError, duckdb.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise SliceworksError(
            f"cannot merge the logs in {folder}: {reason}", hint=f"free disk space, then run `sliceworks load recover {folder}`"
        ) from error
    for item in (
        *(folder / name for name in (TEST_FILE, PROMPTS_FILE, TOKENIZER_FILE)),
        *folder.glob("worker-*.*"),
        folder / MANIFEST_FILE,
    ):
        with suppress(OSError):
            item.unlink()
    return result


def recover(folder: Path) -> dict[str, Any]:
    """The results of an interrupted run, from its logs; marked as partial."""
    if (folder / results.RUN_FILE).exists():
        raise InvalidDocument(f"the run in {folder} is complete", hint=f"sliceworks load report {folder}")
    manifest, prompts = _load_manifest(folder), folder / PROMPTS_FILE
    with _locked(folder):
        # Workers of a killed run exit by themselves after the last responses.
        clock.wait_until(lambda: not any(map(request_log.is_locked, folder.glob("worker-*.rows"))), _LOCK_TIMEOUT)
        spec = LoadTestSpec.model_validate(manifest.spec)
        downloaded = prompts.read_bytes() if prompts.exists() else None
        plan = load_plan.create(spec, Path(manifest.files), url=manifest.url, key="", downloaded=downloaded)
        return finalize(folder, plan, Outcome(_started(folder), INTERRUPTED_NOTE, ()))


def tokenizer_file(folder: Path, tokens: Tokens, files: Path) -> Path:
    """The path of the tokenizer; a downloaded one is in the run folder."""
    downloaded = folder / TOKENIZER_FILE
    return downloaded if downloaded.exists() else files / Path(tokens.tokenizer).expanduser()


def list_unfinished(folder: Path) -> list[Path]:
    """The runs without results: interrupted or still running."""
    return sorted(item.parent for item in folder.glob(f"*/{MANIFEST_FILE}") if not (item.parent / results.RUN_FILE).exists())


def result_files(folder: Path) -> Iterator[Path]:
    """The files of a finished run."""
    yield from (folder / name for name in (results.RUN_FILE, request_table.REQUESTS_FILE, request_table.CHUNKS_FILE))
    if (folder / request_texts.TEXTS_FILE).exists():
        yield folder / request_texts.TEXTS_FILE


def _started(folder: Path) -> float:
    """The start of a run that did not record it, from the last write of its logs (at most half a second after the end)."""
    for file in folder.glob("worker-*.rows"):
        rows, _ = request_log.read_records(file)
        if len(rows):
            return file.stat().st_mtime - float(rows["ended"].max()) / 1e9
    return (folder / MANIFEST_FILE).stat().st_mtime


def _is_merged(folder: Path) -> bool:
    """Whether both tables exist; the second is written last."""
    return all((folder / name).exists() for name in (request_table.REQUESTS_FILE, request_table.CHUNKS_FILE))


def _load_manifest(folder: Path) -> RunManifest:
    try:
        document = results.check_format(orjson.loads((folder / MANIFEST_FILE).read_bytes()), folder / MANIFEST_FILE)
        return RunManifest(**{key: value for key, value in document.items() if key != "format"})
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidDocument(f"no run found in {folder}", hint="see `sliceworks load list`") from error
    except (OSError, ValueError, TypeError) as error:
        raise InvalidDocument(f"cannot read the run's description: {error}", place=str(folder / MANIFEST_FILE)) from error
