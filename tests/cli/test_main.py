"""The root of the command line: fast help, exit codes, one-line errors."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

import sliceworks
from sliceworks.base.errors import InvalidDocument, SliceworksError, TimedOut, UsageError
from sliceworks.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("aiohttp", "asyncio", "cel_expr_python", "cryptography", "orjson", "rich", "uvloop", "yaml")


def test_help_lists_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in main.ENTRIES)
    for name, entry in main.ENTRIES.items():
        context = click.Context(main.cli)
        command = main.cli.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(120) == entry.summary or command.help is not None


def test_help_is_fast_and_imports_little() -> None:
    code = f"""
import sys
from pathlib import Path
from sliceworks.cli.main import run
run(["--help"])
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    times = []
    for _ in range(3):
        started = _spent()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(_spent() - started)
        assert done.stderr.strip() == "[]"
    assert min(times) < 0.3


def _spent() -> float:
    """CPU seconds of finished child processes, which do not depend on the load of the machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"sliceworks, version {sliceworks.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "error: No such command 'nothing'.\nhint: sliceworks --help\n"),
        (["twn", "start"], "error: No such command 'twn'. Did you mean 'twin'?\nhint: sliceworks --help\n"),
        (["train", "submt"], "error: No such command 'submt'. Did you mean 'submit'?\nhint: sliceworks train --help\n"),
        (["completion", "tcsh"], "error: Invalid value for '{bash|zsh|fish}'"),
        (["twin", "start", "--speed", "0"], "error: Invalid value for '--speed'"),
        (
            ["twin", "start", "--timeout", "soon"],
            "error: Invalid value for '--timeout': 'soon' is not a valid duration",
        ),
        (["twin", "start", "--name", "A"], "error: 'A' is not a valid twin name"),
        (["twin"], "Usage: sliceworks twin"),
    ],
)
def test_usage_error_exits_with_two(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (SliceworksError("it broke\nbadly", hint="mend it"), 1, "error: it broke badly\nhint: mend it\n"),
        (UsageError("not so"), 2, "error: not so\n"),
        (TimedOut("too late"), 3, "error: too late\n"),
        (InvalidDocument("is wrong", place="a.yaml:3"), 1, "error: a.yaml:3: is wrong\n"),
        (FileNotFoundError(2, "No such file or directory", "x.yaml"), 1, "error: x.yaml: No such file or directory\n"),
        (OSError(errno.ENOSPC, "No space left on device", "from", None, "to"), 1, "error: to: No space left on device\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "error: No space left on device\n"),
        (
            OSError(errno.EADDRINUSE, "error while attempting to bind on address ('127.0.0.1', 8080): address already in use"),
            1,
            "error: 127.0.0.1:8080: address already in use\nhint: choose another port, or stop the process that uses it\n",
        ),
        (
            ZeroDivisionError("division by zero"),
            1,
            "error: unexpected ZeroDivisionError: division by zero\nhint: set SLICEWORKS_DEBUG=1",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_error_is_one_line_with_an_exit_code(
    error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_context: click.Context) -> None:
        raise error

    monkeypatch.setattr(main.cli, "invoke", failing)
    assert main.run(["twin"]) == code
    assert capsys.readouterr().err.lstrip().startswith(text)


def test_command_help_is_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(main.cli)
    groups = [name for name in main.ENTRIES if isinstance(main.cli.get_command(context, name), click.Group)]
    assert len(groups) > 5
    for group in groups:
        assert main.run([group, "--help"]) == 0
        listed = capsys.readouterr().out.partition("Commands:\n")[2]
        assert listed.rstrip().endswith("."), group
        assert "..." not in listed, group


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "_SLICEWORKS_COMPLETE" in out
    assert "sliceworks" in out


def test_completion_offers_commands_and_options() -> None:
    def complete(words: str) -> list[str]:
        environment = {"_SLICEWORKS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        done = subprocess.run([sys.executable, "-m", "sliceworks"], env=environment, capture_output=True, text=True, check=True)
        return [line.partition(",")[2] for line in done.stdout.split()]

    assert complete("sliceworks tw") == ["twin"]
    assert complete("sliceworks twin st") == ["start", "status", "stop"]
    assert "--foreground" in complete("sliceworks twin start --f")


@pytest.mark.parametrize("arguments", ["--help", "completion bash"])
def test_full_output_device_is_a_one_line_error(arguments: str) -> None:
    command = f"{sys.executable} -m sliceworks {arguments} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("error: No space left on device\n", 1)


def test_closed_output_is_not_an_error() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m sliceworks completion bash >&-"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_broken_pipe_is_not_an_error() -> None:
    command = f"{sys.executable} -m sliceworks completion bash | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "command", ["train submit", "env plan", "load run", "models deploy", "gateway run", "rehearse", "graph check"]
)
def test_deeply_nested_document_is_a_one_line_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.yaml").write_text("kind: A\nspec: " + "[" * 100_000)
    arguments = command.split()
    option = ["deep.yaml"] if command in {"rehearse", "graph check"} else ["-f", "deep.yaml"]
    assert main.run([*arguments, *option]) in {1, 2}
    out, err = capsys.readouterr()
    assert out == ""
    assert "deep.yaml:2: nested more than 100 levels deep" in err
    assert "Traceback" not in err


HOSTILE_FIELDS = {
    "escape sequence": (r"\e[31mred", r"unknown field spec.\x1b[31mred"),
    "title of the terminal": (r"\e]0;x\a", r"unknown field spec.\x1b]0;x\x07"),
    "other direction": (r"\u202eabc", r"unknown field spec.\u202eabc"),
    "line break": (r"a\nb", "unknown field spec.a b"),
    "variant of a union": ("function-before[x()]", "unknown field spec.function-before[x()]"),
}


@pytest.mark.parametrize("command", ["env plan --twin", "train submit", "load run", "gateway run --check"])
@pytest.mark.parametrize(("field", "message"), HOSTILE_FIELDS.values(), ids=HOSTILE_FIELDS)
def test_terminal_does_not_obey_a_document(
    command: str, field: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = {"env": "Environment", "train": "TrainingJob", "load": "LoadTest", "gateway": "Gateway"}[command.split(maxsplit=1)[0]]
    file = tmp_path / "hostile.yaml"
    file.write_text(f'apiVersion: sliceworks.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{"{field}": 1}}\n')
    assert main.run([*command.split(), "-f", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert [line.isprintable() for line in err.splitlines()] == [True] * len(err.splitlines())


def test_a_twin_starts_without_documents(tmp_path: Path) -> None:
    """Loading the documents takes longer than loading the API server."""
    code = """
import sys
import sliceworks.twin.main

async def serve(*_):
    print("sliceworks.twin.cluster" in sys.modules, "pydantic" in sys.modules)

sliceworks.twin.main.serve = serve
from sliceworks.cli.main import run
run(["twin", "start", "--foreground"])
"""
    environment = {**os.environ, "SLICEWORKS_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True False\n", done.stderr
