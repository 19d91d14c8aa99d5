"""`sliceworks`: the root of all commands, and the one place where an error becomes a line and an exit code.

Exit 0 done, 1 failed, 2 wrong usage, 3 timed out.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from typing import NoReturn

import click

import sliceworks
from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError
from sliceworks.cli.groups import Entry, LazyGroup

PROGRAM = "sliceworks"
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it

ENTRIES = {
    "rehearse": Entry("sliceworks.cli.rehearse:rehearse", "Run a folder of documents on a fresh twin, from start to finish."),
    "twin": Entry("sliceworks.cli.twin:twin", "Run an embedded Kubernetes cluster on this machine."),
    "env": Entry("sliceworks.cli.env:env", "Plan, make, look at and remove an environment."),
    "graph": Entry("sliceworks.cli.graph:graph", "Check, render, compare and draw resource graphs."),
    "accelerators": Entry("sliceworks.cli.accelerators:accelerators", "Look up TPU slices and GPU machines."),
    "controller": Entry("sliceworks.cli.controller:controller", "Run what works in a cluster: the controllers."),
    "queues": Entry("sliceworks.cli.queues:queues", "Give teams their queues, and see who waits."),
    "train": Entry("sliceworks.cli.train:train", "Submit training jobs, and see how they stand."),
    "slices": Entry("sliceworks.cli.slices:slices", "See and drain the slices of a cluster."),
    "models": Entry("sliceworks.cli.models:models", "Deploy, publish and call models."),
    "gateway": Entry("sliceworks.cli.gateway:gateway", "Serve models of every kind at one address."),
    "load": Entry("sliceworks.cli.load:load", "Run load tests, and read, compare and query their results."),
    "console": Entry("sliceworks.cli.console:console", "Show a cluster as web pages."),
    "completion": Entry("sliceworks.cli.completion:completion", "Print the completion script of a shell."),
}


@click.group(cls=LazyGroup, entries=ENTRIES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sliceworks.__version__, prog_name=PROGRAM)
def cli() -> None:
    """Train and serve on TPU and GPU slices on Kubernetes, and rehearse all of it on a laptop first."""


def main() -> NoReturn:
    """Run the command line and leave the process."""
    _have_streams()
    code = run()
    if code == _INTERRUPTED:  # impatient fingers must not break off what Python does at its end
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _have_streams() -> None:
    """Where a shell has closed one of them (`>&-`), what is said there goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def run(arguments: list[str] | None = None) -> int:
    """Run one command line; what it returns is the exit code."""
    try:
        result = cli.main(arguments, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.UsageError as error:
        return _usage(error)
    except click.ClickException as error:
        return _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except SliceworksError as error:
        return _fail(error.message, error.hint, error.exit_code)
    except BrokenPipeError:
        _give_up_output()  # whoever read it has gone: there is nobody left to tell
        return 1
    except OSError as error:
        return _fail(*_of_the_system(error))
    except Exception as error:
        if os.environ.get("SLICEWORKS_DEBUG"):
            raise
        return _fail(f"unexpected {type(error).__name__}: {error}", "set SLICEWORKS_DEBUG=1 to see where, and report it please")
    finally:
        progress.set_quiet(False)


def _usage(error: click.UsageError) -> int:
    hint = f"{error.ctx.command_path} --help" if error.ctx else ""
    return _fail(error.format_message(), hint, 2)


def _of_the_system(error: OSError) -> tuple[str, str]:
    """An error of the operating system in words, and what to do about it."""
    place_of = re.search(r"\('(.+?)', (\d+)", str(error))
    where = f"port {place_of[2]} of {place_of[1]}" if place_of else "the port"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use", "choose another one, or end what listens there"
    if place_of and error.errno == errno.EADDRNOTAVAIL:
        return f"{place_of[1]} is no address of this machine", "127.0.0.1 is one, and 0.0.0.0 stands for all"
    if place_of and error.errno == errno.EACCES:
        return f"you may not listen at {where}", "choose one from 1024 on"
    said, place = error.strerror or str(error), error.filename2 or error.filename  # of two files, the one that was to be written
    return (f"{place}: {said}" if place else said), ""


def _give_up_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, hint: str = "", code: int = 1) -> int:
    try:
        sys.stdout.flush()
    except OSError:  # a full disk takes no more, now or when Python ends
        _give_up_output()
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    if hint:
        print(f"hint: {' '.join(hint.split())}", file=sys.stderr)
    return code
