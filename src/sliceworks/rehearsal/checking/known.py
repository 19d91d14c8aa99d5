"""What the documents of a rehearsal have and what they ask for, by name: kinds, objects, queues, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal import documents
from sliceworks.training.words import QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.base.yamls import Document

Object = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name."""
_JOBS = ("JobSet", "Job", "TrainingJob")


class Known:
    """Collects them. An environment that Terraform makes brings its objects later: they are known, and nobody's double."""

    def __init__(self, *, with_terraform: bool = False) -> None:
        self._with_terraform = with_terraform
        self._seen: dict[tuple[str, str, str, str], Document] = {}
        self.kinds: list[tuple[str, str, Document]] = []
        """Group and kind of every object of a cluster, as it is written."""
        self.definitions: list[Object] = []
        """Definitions of kinds, and of graphs."""
        self.queues: set[Name] = set()
        self.cluster_queues: set[str] = set()
        self.jobs: set[Name] = set()
        self.services: set[Name] = set()
        self.load_tests: set[str] = set()
        self.asked: list[tuple[Name, str]] = []
        """Queues that jobs ask for, each with the place that says so."""
        self.all_jobs = self.all_queues = self.everything = True
        """Whether the names of all jobs, all queues, and all that there is are known: then what is not known is not there."""

    def add(self, document: Document, objects: Iterable[Document]) -> list[InvalidDocument]:
        """A document that is there from the start, and what it becomes; doubles are told."""
        self.learn(document, objects := list(objects))
        kind = document.data["kind"]
        shared = kind == "ModelService" or (kind == "Environment" and self._with_terraform)
        doubles = [self._double(each, document) for each in ([document] if shared else [document, *objects])]
        return list({each.message: each for each in doubles if each is not None}.values())

    def _double(self, each: Document, document: Document) -> InvalidDocument | None:
        first = self._seen.setdefault(documents.identity(each), document)
        if first is document:
            return None
        place, hint = document.place("metadata", "name"), f"first in {first.place()}"
        return InvalidDocument(f"{each.name} is written twice", place=place, hint=hint)

    def suspect(self, document: Document) -> None:
        """A document that is wrong: what it would have brought is not known, but its own name is."""
        data = document.data
        if not isinstance(data.get("kind"), str) or not isinstance(data.get("metadata"), dict):
            self.everything = False
            return
        self.all_queues = self.all_queues and data["kind"] not in {"Environment", "LocalQueue", "ClusterQueue"}
        self.learn(document, ())

    def learn(self, document: Document, objects: Iterable[Document], namespace: str = "") -> None:
        """What a document has and asks for, in its own namespace or in another one."""
        data = document.data
        kind, own = data["kind"], _name(data, namespace)
        if kind in _JOBS:
            self.jobs.add(own)
            self._ask(document, own[0])
        elif kind == "ModelService":
            self.services.add(own)
        elif kind == "LoadTest":
            self.load_tests.add(own[1])
        for each in objects:
            self._learn(each, document)

    def _learn(self, each: Document, document: Document) -> None:
        kind, name = each.data["kind"], _name(each.data)
        if each is document:
            self.kinds.append((each.data["apiVersion"].rpartition("/")[0], kind, each))
        if kind in {"CustomResourceDefinition", "ResourceGraphDefinition"}:
            self.definitions.append(each.data)
        elif kind == "LocalQueue":
            self.queues.add(name)
        elif kind == "ClusterQueue":
            self.cluster_queues.add(name[1])

    def _ask(self, document: Document, namespace: str) -> None:
        data, ours = document.data, document.data["kind"] == "TrainingJob"
        labels = (data.get("metadata") or {}).get("labels") or {}
        queue = (data.get("spec") or {}).get("queue") if ours else labels.get(QUEUE)
        if queue:
            place = document.place("spec", "queue") if ours else document.place("metadata", "labels", QUEUE)
            self.asked.append(((namespace, str(queue)), place))


def _name(data: Object, namespace: str = "") -> Name:
    metadata = data.get("metadata") or {}
    return namespace or str(metadata.get("namespace") or "default"), str(metadata.get("name") or metadata.get("generateName") or "")
