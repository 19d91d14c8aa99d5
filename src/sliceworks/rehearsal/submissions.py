"""A TrainingJob from its document: checked whole, with the script that it names, and ready to be sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from sliceworks.base.yamls import Document
    from sliceworks.specs.training import TrainingJob
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


def read(file: Path) -> Submission:
    """The one TrainingJob of a file, with which nothing is wrong; the first finding is raised."""
    from sliceworks.base import yamls

    return take(yamls.load_one(file, "TrainingJob"), yamls.folder_of(file))


def take(document: Document, folder: Path = Path()) -> Submission:
    """A document taken; its script is looked for in a folder."""
    from sliceworks.specs import documents
    from sliceworks.specs.training import TrainingJob
    from sliceworks.training.checks import check
    from sliceworks.training.shapes import ask

    job = documents.read_as(document, TrainingJob)
    script = _script(job, document, folder)
    for finding in check(job, script):
        raise finding.told(document)
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
