"""A TrainingJob from its file or from flags: checked whole, with the script that it names, and ready to be sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from sliceworks.base.yamls import Document
    from sliceworks.specs.training import TrainingJob
    from sliceworks.training.checks import Finding
    from sliceworks.training.shapes import Ask


@dataclass(frozen=True, slots=True)
class Submission:
    """What a document asks for."""

    job: TrainingJob
    ask: Ask
    script: str
    document: Document

    def jobset(self, namespace: str = "") -> dict[str, Any]:
        """The JobSet, in a namespace or in the document's own."""
        from sliceworks.training.compile import jobset

        return jobset(self.job, namespace=namespace, script=self.script)

    def refused(self, finding: Finding) -> InvalidDocument:
        """The error that tells a finding at its place in the document."""
        return InvalidDocument(finding.problem, place=self.document.place(*finding.path), hint=finding.remedy)


def read(file: Path) -> Submission:
    """The one TrainingJob of a file, with which nothing is wrong; the first finding is raised."""
    from sliceworks.base import yamls

    loaded = yamls.load_path(file)
    if len(loaded) != 1:
        raise InvalidDocument(f"has {len(loaded)} documents, one TrainingJob is wanted", place=str(file))
    return take(loaded[0], file if file.is_dir() else file.parent)


def take(document: Document, folder: Path = Path()) -> Submission:
    """A document taken; its script is looked for in a folder."""
    from sliceworks.specs import documents
    from sliceworks.specs.training import TrainingJob
    from sliceworks.training.checks import check
    from sliceworks.training.shapes import ask

    job = documents.read(document)
    if not isinstance(job, TrainingJob):
        raise InvalidDocument(f"a TrainingJob is wanted, found {document.data['kind']}", place=document.place("kind"))
    script = _script(job, document, folder)
    for finding in check(job, script):
        raise InvalidDocument(finding.problem, place=document.place(*finding.path), hint=finding.remedy)
    return Submission(job, ask(job.spec.slices), script, document)


def _script(job: TrainingJob, document: Document, folder: Path) -> str:
    if not job.spec.script:
        return ""
    try:
        return (folder / job.spec.script).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        place = document.place("spec", "script")
        raise InvalidDocument(f"script {job.spec.script}: {reason}", place=place, hint=f"it is looked for in {folder}") from error
