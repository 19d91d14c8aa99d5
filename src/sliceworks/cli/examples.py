"""`sliceworks examples`: list and copy the examples that are installed with the program."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click

from sliceworks.base import progress
from sliceworks.base.errors import UsageError
from sliceworks.base.names import pluralize
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, print_report


@click.group(cls=Group)
def examples() -> None:
    """List and copy the examples."""


def example_path(name: str) -> Path:
    """The folder of an example; raises UsageError if it does not exist."""
    from sliceworks.infra.environment_file import examples_folder

    root = examples_folder()
    path = (root / name).resolve()
    if not name or not path.is_dir() or not path.is_relative_to(root.resolve()):
        raise UsageError(f"example {name!r} not found", hint="`sliceworks examples list` prints the names")
    return path


@examples.command("list")
@options.output("table", "json", "yaml", "name")
def list_examples(output: str) -> None:
    """List the examples with their files and pages."""
    from sliceworks.infra.environment_file import examples_folder

    examples = []
    for line in (examples_folder() / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = cells[0].replace("`", "").split(", ") if cells[0].startswith("`") else ()
        examples += [{"name": name, "content": cells[1], "files": len(_files(example_path(name)))} for name in names]
    examples.sort(key=lambda item: str(item["name"]))
    rows = [(item["name"], item["files"], item["content"]) for item in examples]
    print_report(Report(("name", "files", "content"), rows, examples, [str(item["name"]) for item in examples]), output)


@examples.command()
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@options.quiet
def copy(name: str, folder: Path | None) -> None:
    """Copy the example NAME to FOLDER.  [default: a folder of the same name]

    NAME is an example or a folder in it, such as training-jobs/spot. An existing folder is not changed.
    """
    source = example_path(name)
    target = folder or Path(source.name)
    if target.exists():
        raise UsageError(f"{target} already exists", hint=f"sliceworks examples copy {name} FOLDER")
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    beside = [copied for path in _files(source) for copied in _copy_references(path, target / path.relative_to(source))]
    progress.say(f"{pluralize(len(_files(target)), 'file')} copied to {target}")
    for path in beside:
        progress.say(f"{path} copied too: a document refers to it")


def _copy_references(source: Path, target: Path) -> list[Path]:
    """Copy the examples that a document refers to by a relative path outside its folder."""
    root, copied = example_path("."), []
    for name in re.findall(r"(?:\.\./)+[\w./-]+", source.read_text(encoding="utf-8")):
        linked, path = (source.parent / name).resolve(), target.parent / name
        if linked.is_file() and linked.is_relative_to(root) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(linked, path)
            copied.append(path.resolve())
    return copied


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
