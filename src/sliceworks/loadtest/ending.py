"""How a run ends: its rows become tables, the tables a result. What could not be done then, on a full disk, can be done later.

`note.json` stands in a run's folder from before its first request: with the rows beside it, it is enough to make the result.
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
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.loadtest import counting, merging, plans, results, rows
from sliceworks.loadtest.running import TEST, Outcome
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.loadtest.plans import Plan
    from sliceworks.specs.load_test import Tokens

NOTE = "note.json"
PROMPTS = "prompts.jsonl"
"""In a run's folder while it runs: prompts that came from a bucket."""
TOKENIZER = "tokenizer.json"
_PATIENCE = 30.0
_NO_TEXTS = frozenset({"oip-infer", "http"})
"""APIs whose answers are no texts, as far as is known here: there are no tokens to speak of."""
BROKEN_OFF = "it broke off; this is what its senders had written by then"


@dataclass(frozen=True, slots=True)
class Note:
    """What a run is; `files` is where its document was."""

    name: str
    tags: dict[str, str]
    files: str
    url: str
    spec: dict[str, Any]


@contextmanager
def noted(folder: Path, what: Note) -> Iterator[None]:
    """Write down what a run is; nobody else touches the folder meanwhile."""
    try:
        folder.mkdir(parents=True)
        (folder / NOTE).write_bytes(orjson.dumps(asdict(what)))
    except OSError as error:
        raise SliceworksError(f"runs cannot be kept in {folder}: {error.strerror}") from error
    with _held(folder):
        try:
            yield
        finally:
            measured = any(each.stat().st_size for each in folder.glob("worker-*.rows")) or _merged(folder)
            for each in () if measured else (NOTE, PROMPTS, TOKENIZER):  # there is nothing to recover
                (folder / each).unlink(missing_ok=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    with (folder / NOTE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SliceworksError(
                f"the run in {folder} still goes on", hint="Ctrl-C ends it and keeps what was measured"
            ) from error
        yield


def conclude(folder: Path, plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """Tables, result, and nothing left of what led to them. Rows stay where they are until all of it is there."""
    known = _note(folder)
    try:
        if not _merged(folder):
            merging.merge(folder)
        if plan.spec.tokens is not None:
            counting.count(folder, plan.prompts, counting.tokenizer(tokenizer_file(folder, plan.spec.tokens, Path(known.files))))
        who = {} if plan.spec.api in _NO_TEXTS else counting.who_counted(folder)
        found = results.conclude(known.name, plan, outcome, folder, known.tags, tokens=who)
    except (OSError, duckdb.Error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise SliceworksError(
            f"the rows in {folder} cannot be put together: {why}", hint=f"make room, then: sliceworks load recover {folder}"
        ) from error
    for each in (*(folder / name for name in (TEST, PROMPTS, TOKENIZER)), *folder.glob("worker-*.*"), folder / NOTE):
        with suppress(OSError):
            each.unlink()
    return found


def recover(folder: Path) -> dict[str, Any]:
    """The result of a run that did not come to its end, from the rows that it left. It is marked as partial."""
    if (folder / results.RUN).exists():
        raise InvalidDocument(f"the run in {folder} is whole", hint=f"sliceworks load report {folder}")
    known, fetched = _note(folder), folder / PROMPTS
    with _held(folder):
        # Senders whose run was killed end by themselves, once the last answers are there.
        clock.wait_until(lambda: not any(map(rows.is_written_to, folder.glob("worker-*.rows"))), _PATIENCE)
        spec = LoadTestSpec.model_validate(known.spec)
        text = fetched.read_bytes() if fetched.exists() else None
        plan = plans.make(spec, Path(known.files), url=known.url, key="", text=text)
        return conclude(folder, plan, Outcome(_began(folder), BROKEN_OFF, ()))


def tokenizer_file(folder: Path, wanted: Tokens, files: Path) -> Path:
    """Where the tokenizer is: in the run's folder, where it came from a bucket."""
    fetched = folder / TOKENIZER
    return fetched if fetched.exists() else files / Path(wanted.tokenizer).expanduser()


def unfinished(folder: Path) -> list[Path]:
    """Runs that did not come to their end, or have not yet."""
    return sorted(each.parent for each in folder.glob(f"*/{NOTE}") if not (each.parent / results.RUN).exists())


def files(folder: Path) -> Iterator[Path]:
    """What a result consists of."""
    yield from (folder / name for name in (results.RUN, merging.REQUESTS, merging.PIECES))


def _began(folder: Path) -> float:
    """When a run began that nobody wrote down: its last row was written half a second at most after it ended."""
    for file in folder.glob("worker-*.rows"):
        found, _ = rows.read(file)
        if len(found):
            return file.stat().st_mtime - float(found["ended"].max()) / 1e9
    return (folder / NOTE).stat().st_mtime


def _merged(folder: Path) -> bool:
    """Whether both tables were written before: the second is written last, and the rows go after it."""
    return all((folder / name).exists() for name in (merging.REQUESTS, merging.PIECES))


def _note(folder: Path) -> Note:
    try:
        return Note(**orjson.loads((folder / NOTE).read_bytes()))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidDocument(f"there is no run in {folder}", hint="sliceworks load list shows what there is") from error
    except (OSError, ValueError, TypeError) as error:
        raise InvalidDocument(f"what the run is cannot be read: {error}", place=str(folder / NOTE)) from error
