"""Where twins live on this machine: one folder each, and who runs in it.

    $SLICEWORKS_HOME, else $XDG_STATE_HOME/sliceworks, else ~/.local/state/sliceworks
    └── twins/NAME/       only its owner may look inside
        ├── twin.pid      held locked by the running twin, for as long as it runs
        ├── twin.json     how it was started last
        ├── ready.json    where it answers; there only while it does
        ├── kubeconfig    how to reach it
        ├── log           what it said since it was started last
        └── …             its certificates, token and database

A lock ends with its process, however that ends: a pid file that nobody holds is stale, whatever number it names.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock, folders, names
from sliceworks.base.errors import SliceworksError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_NAME = "default"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a twin was started: kept, so that it comes back the same way. One that is `steered` has a clock of its own, which can be
    stopped, moved on and let run faster; one at another speed always has."""

    port: int = 0
    memory: bool = False
    speed: float = 1.0
    workloads: bool = True
    processes: bool = False
    config_connector: bool = False
    cloud_port: int = 0
    steered: bool = False

    @property
    def own_clock(self) -> bool:
        return self.steered or self.speed != 1.0


@dataclass(frozen=True, slots=True)
class State:
    """What is known about a twin from outside. `state` is running, starting or stopped."""

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

    def holder(self) -> int:
        """The process that runs this twin; 0 when none does."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY)
        except OSError:
            return 0
        try:
            text = b"" if _locked(descriptor, fcntl.LOCK_SH) else os.read(descriptor, 20)
            return int(text) if text.strip().isdigit() else 0
        finally:
            os.close(descriptor)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the one process that runs this twin."""
        self.create()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _taken(descriptor):
                raise SliceworksError(f"the twin {self.name!r} is already running", hint="sliceworks twin status")
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            yield
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def create(self) -> None:
        """Make the folder, for its owner alone."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)

    def settings(self) -> Settings:
        """How it was started last; the defaults when that is not known."""
        found = _read(self.directory / "twin.json")
        try:
            port, speed = int(found.get("port", 0)), float(found.get("speed", 1.0))
            memory, workloads = bool(found.get("memory", False)), bool(found.get("workloads", True))
            processes, config_connector = bool(found.get("processes", False)), bool(found.get("config_connector", False))
            cloud_port, steered = int(found.get("cloud_port", 0)), bool(found.get("steered", False))
            return Settings(port, memory, speed, workloads, processes, config_connector, cloud_port, steered)
        except (TypeError, ValueError):
            return Settings()

    def remember(self, settings: Settings) -> None:
        """Keep how it was started."""
        (self.directory / "twin.json").write_bytes(orjson.dumps(asdict(settings)))

    def state(self) -> State:
        """What goes on in this folder now."""
        holder, ready = self.holder(), _read(self.directory / "ready.json")
        known = State(self.name, "stopped", str(self.directory), str(self.kubeconfig), self.settings())
        if not holder:
            return known
        answers = ready.get("pid") == holder
        return State(
            known.name,
            "running" if answers else "starting",
            known.directory,
            known.kubeconfig,
            known.settings,
            pid=holder,
            port=int(ready["port"]) if answers else 0,
            url=str(ready["url"]) if answers else "",
            started=str(ready["started"]) if answers else "",
            cloud_port=int(ready["cloud_port"]) if answers else 0,
            cloud=str(ready["cloud"]) if answers else "",
        )

    @property
    def _lock(self) -> Path:
        return self.directory / "twin.pid"


def find(name: str) -> Home:
    """The folder of a twin, there or not."""
    if names.dns1123_label_errors(name):
        raise UsageError(f"{name!r} cannot be the name of a twin", hint="use lower-case letters, digits and dashes, at most 63")
    return Home(name, root() / "twins" / name)


def all_homes() -> list[Home]:
    """Every twin that has a folder, by name."""
    with suppress(FileNotFoundError):
        return [Home(folder.name, folder) for folder in sorted((root() / "twins").iterdir()) if folder.is_dir()]
    return []


def root() -> Path:
    """The folder of everything that is kept on this machine."""
    own = os.environ.get("SLICEWORKS_HOME")
    if own:
        return Path(own).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    # The XDG rules: a relative path there counts as none.
    if state and Path(state).is_absolute():
        return Path(state) / "sliceworks"
    home = folders.home()
    if home is None:
        raise UsageError(
            "this user has no home folder, and so no place for twins", hint="name one: SLICEWORKS_HOME=/tmp/sliceworks"
        )
    return home / ".local" / "state" / "sliceworks"


def _taken(descriptor: int) -> bool:
    """Take the lock alone; False when another process has it. Those who only look share it for a moment, and are waited for."""

    outcome = ""

    def decided() -> bool:
        nonlocal outcome
        if _locked(descriptor, fcntl.LOCK_EX):
            outcome = "ours"
        elif not _locked(descriptor, fcntl.LOCK_SH):
            outcome = "another's"
        return bool(outcome)

    clock.wait_until(decided, timeout=5)
    return outcome == "ours"


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
