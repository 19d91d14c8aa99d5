"""Names that a definition gives: its kind, the ids of its resources, the iterators of its collections."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.cel.names import RESERVED
from sliceworks.graph.model import MOST_DIMENSIONS, Issue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sliceworks.graph.model import ResourceBlock

KIND = re.compile(r"[A-Z][a-zA-Z0-9]{0,62}\Z")
VERSION = re.compile(r"v[0-9]+(alpha[0-9]+|beta[0-9]+)?\Z")
_ID = re.compile(r"[a-z][a-zA-Z0-9]*\Z")
_WORDS = """
apiVersion context dependency dependencies each externalRef externalReference externalRefs externalReferences graph instance
item items kind kro metadata namespace object resource resourcegraphdefinition resourceGraphDefinition resources root runtime
schema self serviceAccountName spec status this variables vars version
"""
RESERVED_IDS = frozenset(_WORDS.split()) | RESERVED


def naming_issues(resources: Sequence[ResourceBlock], dimensions: int = MOST_DIMENSIONS) -> Iterator[Issue]:
    """What is wrong with ids and iterators, of which a resource may have as many as there are `dimensions`."""
    ids = [resource.id for resource in resources]
    for position, resource in enumerate(resources):
        path = (*resource.path, "id")
        if resource.id in RESERVED_IDS:
            yield Issue(path, f"the id {resource.id} is a reserved word", remedy="choose another name")
        elif not _ID.match(resource.id):
            yield Issue(path, f"the id {resource.id} must be lower camelCase", remedy=_example(resource.id))
        elif resource.id in ids[:position]:
            yield Issue(path, f"the id {resource.id} is given twice", remedy="every resource needs an id of its own")
        yield from _iterator_issues(resource, frozenset(ids), dimensions)


def _iterator_issues(resource: ResourceBlock, ids: frozenset[str], dimensions: int) -> Iterator[Issue]:
    path = (*resource.path, "forEach")
    if len(resource.for_each) > dimensions:
        yield Issue(path, f"forEach has {len(resource.for_each)} dimensions; {dimensions} is the most")
    seen: set[str] = set()
    for index, (name, _) in enumerate(resource.for_each):
        problem = ""
        if not _ID.match(name):
            problem = "must be lower camelCase"
        elif name in RESERVED_IDS:
            problem = "is a reserved word"
        elif name in ids:
            problem = "is the id of a resource"
        elif name in seen:
            problem = "is given twice"
        if problem:
            yield Issue((*path, index, name), f"the iterator {name} {problem}", remedy="choose another name")
        seen.add(name)


def _example(name: str) -> str:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
    if not words:
        return "such as webServer"
    joined = words[0][:1].lower() + words[0][1:] + "".join(word[:1].upper() + word[1:] for word in words[1:])
    return f"write {joined}" if _ID.match(joined) else "such as webServer"
