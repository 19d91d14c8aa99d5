"""What the graph commands print: for people, and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.cli.graph_files import Checked
    from sliceworks.graph.differences import Difference
    from sliceworks.graph.rendering import Rendered

Obj = dict[str, Any]
_SIGNS = {"create": "+", "change": "~", "replace": "±", "delete": "-"}


def tell(checked: Sequence[Checked]) -> None:
    """Every issue and every warning, a line each."""
    for each in checked:
        for issue in each.issues:
            click.echo(f"error: {issue}", err=True)
        for note in each.notes:
            click.echo(f"warning: {note}", err=True)


def verdict(checked: Checked) -> str:
    """How a document stands, in a word or two."""
    if checked.issues:
        return "wrong"
    return (
        f"good, with {len(checked.notes)} warnings"
        if len(checked.notes) > 1
        else "good, with a warning"
        if checked.notes
        else "good"
    )


def checked_data(checked: Checked) -> Obj:
    """What was found in a document, for programs."""
    found: Obj = {"document": checked.document.name, "place": checked.document.place(), "good": not checked.issues}
    for name, items in (("issues", checked.issues), ("warnings", checked.notes)):
        found[name] = [
            {key: value for key in ("place", "message", "expression", "remedy") if (value := getattr(item, key, ""))}
            for item in items
        ]
    if checked.graph is not None:
        found["order"] = list(checked.graph.order)
    return found


def stream(found: Sequence[Rendered]) -> str:
    """Objects as YAML; comments say what each is and what is not known."""
    from sliceworks.base import yamls

    parts = []
    for each in found:
        about = f"# {each.node.id}: {each.state}" + (f", {each.because}" if each.because else "") + "\n"
        about += "".join(f"#   not known yet: {text}\n" for text in each.unknown)
        if each.state in ("external", "left out"):
            parts.append(about + "".join(f"#   {obj['kind']} {obj['metadata'].get('name', '')}\n" for obj in each.objects))
            continue
        parts += [(about if number == 0 else "") + yamls.dump(obj) for number, obj in enumerate(each.objects)] or [about]
    return "---\n".join(parts)


def row(each: Rendered, obj: Obj) -> tuple[object, ...]:
    """A line of a table."""
    metadata = obj.get("metadata") or {}
    return each.node.id, each.state, each.node.kind.kind, metadata.get("namespace"), metadata.get("name"), len(each.unknown)


def rendered_data(each: Rendered) -> Obj:
    """A resource, for programs."""
    found: Obj = {"resource": each.node.id, "state": each.state, "objects": list(each.objects), "unknown": list(each.unknown)}
    return found | ({"because": each.because} if each.because else {})


def tell_differences(changed: Sequence[Difference]) -> None:
    """A line for each object, and one for each field."""
    for each in changed:
        metadata = each.obj["metadata"]
        where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        why = f"  ({each.why})" if each.why else ""
        click.echo(f"{_SIGNS[each.action]} {each.action} {each.obj['kind']} {where}{metadata.get('name')}  [{each.node}]{why}")
        for step in each.steps:
            click.echo(f"    {step.path}: {_value(step.old)} → {_value(step.new)}")


def _value(value: Any) -> str:
    import orjson

    if value is None:
        return "nothing"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def difference_data(each: Difference) -> Obj:
    """A difference, for programs."""
    metadata = each.obj["metadata"]
    found: Obj = {
        "resource": each.node,
        "action": each.action,
        "kind": each.obj["kind"],
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "fields": [{"path": step.path, "old": step.old, "new": step.new} for step in each.steps],
    }
    return found | ({"why": each.why} if each.why else {})
