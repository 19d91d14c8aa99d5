"""Folders of the twins on this machine: settings, lock, kubeconfig and log of each.

    $SLICEWORKS_HOME, else $XDG_STATE_HOME/sliceworks, else ~/.local/state/sliceworks
    └── twins/NAME/       readable by its owner only
        ├── twin.pid      locked by the running twin
        ├── twin.json     settings of the last start
        ├── ready.json    address; exists only while the twin is ready
        ├── clock.json    a time that its clock has not passed, and its speed; only with a clock of its own
        ├── kubeconfig    credentials of the administrator
        ├── log           output since the last start
        └── …             its certificates, token and database

The kernel releases the lock when the process ends, so a pid file without a lock is stale.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock, files, names
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.catalog.labels import DEFAULT_RUN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

DEFAULT_NAME = "default"


@dataclass(frozen=True, slots=True)
class Settings:
    """Start options of a twin, saved for its next start. With `steered`, or a speed other than 1, it has its own clock, which
    can be paused, advanced and sped up."""

    port: int = 0
    memory: bool = False
    speed: float = 1.0
    workloads: bool = True
    processes: bool = False
    config_connector: bool = False
    cloud_port: int = 0
    steered: bool = False
    job_seconds: float = DEFAULT_RUN_SECONDS
    isolate: bool = False
    watchdog_timeout: float = 0.0
    without: tuple[str, ...] = ()
    image_map: str = ""
    features: tuple[str, ...] = ()

    @property
    def has_own_clock(self) -> bool:
        return self.steered or self.speed != 1.0


@dataclass(frozen=True, slots=True)
class SavedClock:
    """The clock of a twin as its process saves it: a time that it has not passed, its speed, and whether it is paused."""

    until: datetime
    speed: float
    paused: bool


@dataclass(frozen=True, slots=True)
class State:
    """Status of a twin. `state` is running, starting or stopped."""

    name: str
    state: str
    directory: str
    kubeconfig: str
    settings: Settings
    pid: int = 0
    port: int = 0
    url: str = ""
    started: str = ""
    cloud_port: int = 0
    cloud: str = ""

    @property
    def token(self) -> str:
        """The administrator's token."""
        return (Path(self.directory) / "token").read_text().strip()


@dataclass(frozen=True, slots=True)
class Home:
    """One twin's folder."""

    name: str
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def token(self) -> Path:
        """The file with the administrator's token, for the cluster and for the cloud."""
        return self.directory / "token"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def exists(self) -> bool:
        return self.directory.is_dir()

    def owner_pid(self) -> int:
        """Process id of the running twin, or 0."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY)
        except OSError:
            return 0
        try:
            text = b"" if _try_lock(descriptor, fcntl.LOCK_SH) else os.read(descriptor, 20)
            return int(text) if text.strip().isdigit() else 0
        finally:
            os.close(descriptor)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the twin's lock; fails if another process holds it."""
        self.create()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _try_lock_exclusive(descriptor):
                raise SliceworksError(f"twin {self.name!r} is already running", hint="sliceworks twin status")
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            yield
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def create(self) -> None:
        """Create the folder, readable by its owner only."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)

    def settings(self) -> Settings:
        """Settings of the last start, or the defaults."""
        stored = _read(self.directory / "twin.json")
        try:
            return Settings(**{name: type(value)(stored.get(name, value)) for name, value in asdict(Settings()).items()})
        except (TypeError, ValueError):
            return Settings()

    def clock(self) -> SavedClock | None:
        """The saved clock of a twin that has one of its own, or None."""
        saved = _read(self.directory / "clock.json")
        until = clock.parse(saved.get("until"))
        return None if until is None else SavedClock(until, float(saved.get("speed") or 1.0), bool(saved.get("paused")))

    def remember(self, settings: Settings) -> None:
        """Save the start options."""
        (self.directory / "twin.json").write_bytes(orjson.dumps(asdict(settings)))

    def state(self) -> State:
        """Current status of the twin."""
        pid, ready = self.owner_pid(), _read(self.directory / "ready.json")
        stopped = State(self.name, "stopped", str(self.directory), str(self.kubeconfig), self.settings())
        if not pid:
            return stopped
        if ready.get("pid") != pid:
            return replace(stopped, state="starting", pid=pid)
        return replace(
            stopped,
            state="running",
            pid=pid,
            port=int(ready["port"]),
            url=str(ready["url"]),
            started=str(ready["started"]),
            cloud_port=int(ready["cloud_port"]),
            cloud=str(ready["cloud"]),
        )

    @property
    def _lock(self) -> Path:
        return self.directory / "twin.pid"


def find(name: str) -> Home:
    """The folder of a twin, whether it exists or not."""
    if names.dns1123_label_errors(name):
        raise UsageError(f"{name!r} is not a valid twin name", hint="use lower-case letters, digits and dashes, at most 63")
    return Home(name, state_root() / "twins" / name)


def running_twin() -> State:
    """The twin that `--twin` selects; it must be running."""
    name = os.environ.get("SLICEWORKS_TWIN") or DEFAULT_NAME
    state = find(name).state()
    if state.state != "running":
        raise SliceworksError(f"twin {name!r} is not running", hint=f"sliceworks twin start --name {name}")
    return state


def list_homes() -> list[Home]:
    """Every twin with a folder, sorted by name."""
    with suppress(FileNotFoundError):
        return [Home(folder.name, folder) for folder in sorted((state_root() / "twins").iterdir()) if folder.is_dir()]
    return []


def state_root() -> Path:
    """The root folder of the state on this machine."""
    own = os.environ.get("SLICEWORKS_HOME")
    if own:
        return Path(own).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    # The XDG rules: a relative path there counts as none.
    if state and Path(state).is_absolute():
        return Path(state) / "sliceworks"
    home = files.find_home()
    if home is None:
        raise UsageError("no home directory found for the state of twins", hint="set one: SLICEWORKS_HOME=/tmp/sliceworks")
    return home / ".local" / "state" / "sliceworks"


def _try_lock_exclusive(descriptor: int) -> bool:
    """Take the exclusive lock; False if another twin holds it. Readers share it for a moment, so retry while it is shared."""
    outcome = ""

    def decided() -> bool:
        nonlocal outcome
        if _try_lock(descriptor, fcntl.LOCK_EX):
            outcome = "ours"
        elif not _try_lock(descriptor, fcntl.LOCK_SH):
            outcome = "taken"
        return bool(outcome)

    clock.wait_until(decided, timeout=5)
    return outcome == "ours"


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: Path) -> dict[str, Any]:
    try:
        content = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}
