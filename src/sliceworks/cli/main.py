"""`sliceworks`: the root command; turns every error into one line and an exit code.

Exit codes: 0 success, 1 failure, 2 usage error, 3 timeout, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from itertools import pairwise
from typing import Any, NoReturn

import click

import sliceworks
from sliceworks.base import progress
from sliceworks.base.errors import InvalidDocument, SliceworksError, UsageError, root_error
from sliceworks.cli.groups import Entry, LazyGroup

PROGRAM = "sliceworks"
_TWIN_OPTION, _TWIN = "--twin", "SLICEWORKS_TWIN"
_INTERRUPTED = 130  # 128 + SIGINT, as in shells

ENTRIES = {
    "rehearse": Entry("sliceworks.cli.rehearse:rehearse", "Run a folder of documents on a fresh twin, from start to finish."),
    "twin": Entry("sliceworks.cli.twin:twin", "Run an embedded Kubernetes cluster on this machine."),
    "env": Entry("sliceworks.cli.env:env", "Plan, apply, inspect and destroy an environment."),
    "graph": Entry("sliceworks.cli.graph:graph", "Check, render, compare and draw resource graphs."),
    "accelerators": Entry("sliceworks.cli.accelerators:accelerators", "List and describe TPU slices and GPU machines."),
    "controller": Entry("sliceworks.cli.controller:controller", "Run the Sliceworks controllers."),
    "queues": Entry("sliceworks.cli.queues:queues", "Manage team queues and show pending workloads."),
    "train": Entry("sliceworks.cli.train:train", "Submit, inspect and manage training jobs."),
    "slices": Entry("sliceworks.cli.slices:slices", "List, show and drain slices."),
    "models": Entry("sliceworks.cli.models:models", "Deploy, publish and invoke models."),
    "gateway": Entry("sliceworks.cli.gateway:gateway", "Serve all models at one address."),
    "load": Entry("sliceworks.cli.load:load", "Run load tests; report, compare and query their results."),
    "console": Entry("sliceworks.cli.console:console", "Serve the web console of a cluster."),
    "version": Entry("sliceworks.cli.doctor:version", "Print the versions of this program and of a cluster."),
    "doctor": Entry("sliceworks.cli.doctor:doctor", "Check the installation in a cluster, and print how to repair it."),
    "examples": Entry("sliceworks.cli.examples:examples", "List and copy the examples."),
    "completion": Entry("sliceworks.cli.completion:completion", "Print a shell completion script."),
}


@click.group(cls=LazyGroup, entries=ENTRIES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sliceworks.__version__, prog_name=PROGRAM)
def cli() -> None:
    """Train and serve on TPU and GPU slices on Kubernetes, and rehearse all of it on a laptop first."""


def main() -> NoReturn:
    """Run the command line and exit the process."""
    _open_missing_streams()
    code = run()
    if code == _INTERRUPTED:  # a second Ctrl-C must not interrupt the interpreter's cleanup
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _open_missing_streams() -> None:
    """Send stdout or stderr to the null device if the shell closed it (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def run(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    before, twin = os.environ.get(_TWIN), ""
    try:
        arguments, twin = _split_twin_name(sys.argv[1:] if arguments is None else arguments)
        if twin:
            os.environ[_TWIN] = twin
        result = _call(arguments)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.UsageError as error:
        return _usage(error, arguments or [])
    except click.ClickException as error:
        return _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except InvalidDocument as error:
        return max(_fail(problem.message, problem.hint, problem.exit_code) for problem in (error, *error.others))
    except SliceworksError as error:
        return _fail(error.message, error.hint, error.exit_code)
    except BrokenPipeError:
        _discard_output()  # the reader of the pipe has exited
        return 1
    except OSError as error:
        return _fail(*_describe_os_error(error))
    except Exception as error:
        if os.environ.get("SLICEWORKS_DEBUG"):
            raise
        return _fail(
            f"unexpected {type(error).__name__}: {error}", "set SLICEWORKS_DEBUG=1 for a traceback, and please report this bug"
        )
    finally:
        progress.set_quiet(False)
        if twin:
            os.environ.pop(_TWIN)
            os.environ.update({_TWIN: before} if before is not None else {})


def _call(arguments: list[str]) -> Any:
    try:
        return cli.main(arguments, prog_name=PROGRAM, standalone_mode=False)
    except BaseExceptionGroup as group:
        raise root_error(group) from group


def _split_twin_name(arguments: list[str]) -> tuple[list[str], str]:
    """Replace `--twin=NAME` by `--twin`; returns the name too.

    click would take the next argument as the value of an option whose value is optional.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    prefix = f"{_TWIN_OPTION}="
    names = [argument.removeprefix(prefix) for argument in arguments[:end] if argument.startswith(prefix)]
    if "" in names:
        raise UsageError(f"{prefix}: the name of the twin is missing", hint=f"use {prefix}NAME, or {_TWIN_OPTION} for the default")
    plain = [_TWIN_OPTION if argument.startswith(prefix) else argument for argument in arguments[:end]]
    return [*plain, *arguments[end:]], names[-1] if names else ""


def _usage(error: click.UsageError, arguments: list[str]) -> int:
    from sliceworks.platform import twin_home

    hint = f"{error.ctx.command_path} --help" if error.ctx else ""
    names = {home.name for home in twin_home.list_homes()} if _TWIN_OPTION in arguments else set()
    for option, name in pairwise(arguments):
        if option == _TWIN_OPTION and name in names:
            hint = f"to use the twin {name}, write {_TWIN_OPTION}={name}"
    return _fail(error.format_message(), hint, 2)


def _describe_os_error(error: OSError) -> tuple[str, str]:
    """Return the message and the hint for an error of the operating system."""
    address = re.search(r"\('(.+?)', (\d+)", str(error))
    where = f"{address[1]}:{address[2]}" if address else "the port"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: address already in use", "choose another port, or stop the process that uses it"
    if address and error.errno == errno.EADDRNOTAVAIL:
        return f"{address[1]} is not an address of this machine", "use 127.0.0.1, or 0.0.0.0 for all interfaces"
    if address and error.errno == errno.EACCES:
        return f"{where}: permission denied", "choose a port of at least 1024"
    # filename2 is the file to be written, where there are two
    reason, path = error.strerror or str(error), error.filename2 or error.filename
    return (f"{path}: {reason}" if path else reason), ""


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, hint: str = "", code: int = 1) -> int:
    try:
        sys.stdout.flush()
    except OSError:  # the disk is full: a later flush would fail too
        _discard_output()
    from sliceworks.base.tables import printable

    print(f"error: {printable(' '.join(message.split()))}", file=sys.stderr)
    if hint:
        print(f"hint: {printable(' '.join(hint.split()))}", file=sys.stderr)
    return code
