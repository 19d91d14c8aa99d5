"""How well the cluster is known, in words: what a person should know before reading a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import Unauthorized
from sliceworks.console import kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.base.errors import SliceworksError
    from sliceworks.console.tables import Table
    from sliceworks.kube.resources import Resource

SHUT_OUT = "The cluster does not accept your credentials: they are wrong, or have expired."
RENEW = "Renew them, then start the console again."
_SENTENCES = {
    "unauthorized": SHUT_OUT,
    "forbidden": "You may not read the {} of this cluster.",
    "old": "You may no longer read the {} of this cluster: what is shown of them is old.",
    "missing": "{} is not installed in this cluster.",
    "reading": "Reading {} …",
}


def words(tables: Iterable[Table]) -> list[str]:
    """Each thing once, and kinds that stand alike in one sentence."""
    alike: dict[str, list[str]] = {}
    for each in tables:
        name = _installed_by(each.resource) if each.state == "missing" else each.resource.plural
        alike.setdefault(each.state, []).append(name)
    found = []
    for state, sentence in _SENTENCES.items():
        names = list(dict.fromkeys(alike.get(state, ())))
        told = names if state == "missing" or not names else [_all_of(names)]
        found += [sentence.format(each) for each in told]
    return found


def said(error: SliceworksError) -> str:
    """What went wrong when the cluster was asked, and the remedy."""
    if isinstance(error, Unauthorized):
        return SHUT_OUT
    return f"{error.message}{f': {error.hint}' if error.hint else ''}"


def _installed_by(resource: Resource) -> str:
    return kinds.INSTALLED_BY.get(resource.group, resource.kind)


def _all_of(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
