"""Every problem of a folder: of files, of documents by themselves, and of names that lead nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal import documents
from sliceworks.rehearsal.checking import names, single
from sliceworks.rehearsal.checking.known import Known
from sliceworks.rehearsal.scenarios import renumbered
from sliceworks.specs import documents as specs
from sliceworks.specs.scenario import Apply, Scenario, Submit, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sliceworks.base.yamls import Document
    from sliceworks.specs.model import Spec

_EXAMPLE = "give a folder of .yaml files, such as examples/platform"


def problems(path: Path) -> list[InvalidDocument]:
    """All of them, by file and line. A document that is wrong by itself is asked for nothing more, but for the files it names."""
    folder = yamls.folder_of(path)
    written, found = _read(path)
    if not written and not found:
        return [InvalidDocument("has no documents", place=str(path), hint=_EXAMPLE)]
    told = [each for each in written if documents.is_scenario(each)]
    found += [
        InvalidDocument("is the second scenario", place=each.place(), hint=f"first in {told[0].place()}") for each in told[1:]
    ]
    scenario = specs.check(told[0])[0] if told else None
    known = Known(with_terraform=isinstance(scenario, Scenario) and scenario.spec.environment == "terraform")
    # Of what cannot be read nobody knows what it would have brought: then nothing is said to be missing.
    known.everything = not found and (scenario is not None or not told)
    for each in written:
        objects, wrong = single.check(each, folder)
        if wrong:
            known.suspect(each)
        found += wrong or known.add(each, objects)
    if not isinstance(scenario, Scenario):
        found += _later(told[0], _named(told[0]), folder, known) if told else []
        return _in_order([*found, *names.check(known, None, None)])
    actions = [(number, *event.action) for number, event in enumerate(scenario.spec.events)]
    found += _later(told[0], actions, folder, known)
    return _in_order([*found, *names.check(known, told[0], scenario)])


def _read(path: Path) -> tuple[list[Document], list[InvalidDocument]]:
    """The documents of files, and what is wrong with those that cannot be read."""
    written: list[Document] = []
    found: list[InvalidDocument] = []
    for file in yamls.files(path):
        try:
            written += yamls.load_path(file)
        except InvalidDocument as error:
            found.append(error)
    return written, found


def _named(told: Document) -> Iterator[tuple[int, str, Spec]]:
    """The files that a scenario names, although something is wrong with it."""
    spec = told.data.get("spec")
    events = spec.get("events") if isinstance(spec, dict) else None
    for number, event in enumerate(events if isinstance(events, list) else ()):
        for name, kind in (("apply", Apply), ("submit", Apply), ("trace", Trace)):
            action = event.get(name) if isinstance(event, dict) else None
            file = action.get("file") if isinstance(action, dict) else None
            if isinstance(file, str):
                yield number, name, kind(file=file)


def _later(told: Document, actions: Iterable[tuple[int, str, Spec]], folder: Path, known: Known) -> list[InvalidDocument]:
    """What is wrong with what the scenario brings in the course of the day, by the events' numbers; the rest is learned."""
    found: list[InvalidDocument] = []
    for number, name, action in actions:
        known.all_jobs = known.all_jobs and not isinstance(action, Trace)
        if not isinstance(action, Apply | Submit | Trace):
            continue
        if not (folder / action.file).exists():
            place = told.place("spec", "events", number, name, "file")
            found.append(InvalidDocument(f"there is no {action.file}", place=place, hint=f"it is looked for in {folder}"))
        elif not isinstance(action, Trace):
            read, wrong = _read(folder / action.file)
            known.everything = known.everything and not wrong
            found += wrong
            for each in read:
                found += _brought(each, action, folder, known)
    return found


def _brought(document: Document, action: Apply | Submit, folder: Path, known: Known) -> list[InvalidDocument]:
    first = renumbered(document, 1)
    objects, wrong = single.check(first, folder)
    if wrong:
        known.suspect(first)
    if known.everything:
        known.learn(first, objects, action.namespace if isinstance(action, Submit) else "")
        for number in range(2, action.count + 1 if isinstance(action, Submit) else 0):
            known.learn(renumbered(document, number), (), action.namespace if isinstance(action, Submit) else "")
    return wrong


def _in_order(found: Iterable[InvalidDocument]) -> list[InvalidDocument]:
    """Each once, by file and line."""
    once = {each.message: each for each in found}

    def place(each: InvalidDocument) -> tuple[str, int]:
        file, _, line = each.place.rpartition(":")
        return (file, int(line)) if line.isdigit() else (each.place, 0)

    return sorted(once.values(), key=place)
