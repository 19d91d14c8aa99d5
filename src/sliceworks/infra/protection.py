"""What protects an environment from `destroy`: found before anything is deleted, and lifted when the document allows it. Pure.

The document decides. Terraform refuses by what its state says (`deletion_protection`, `force_destroy`), so a field that was changed
in the document since the last apply is copied into the state; these attributes exist only there, and the cloud is not called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.specs.environment import EnvironmentSpec

Object = dict[str, Any]
BUCKET, DATASET = "google_storage_bucket", "google_bigquery_dataset"
_CLUSTER, TABLE = "google_container_cluster", "google_bigquery_table"
_PROTECTED = {_CLUSTER: ("cluster", "name"), TABLE: ("table", "table_id")}
"""Resource types with `deletion_protection`: their noun, and the attribute with their name."""
_SHOWN = 3


class Protection(NamedTuple):
    """A resource that `destroy` must not delete: the resource, the reason, and the change of the document that allows it."""

    resource: str
    reason: str
    remedy: str


class Contents(NamedTuple):
    """What is in a bucket or dataset that this environment did not write."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        shown, rest = self.names[:_SHOWN], len(self.names) - _SHOWN
        return ", ".join(shown) + (", …" if rest > 0 else "")


def resources_of(state: Object) -> Iterator[tuple[str, Object]]:
    """Type and attributes of all managed resources in a Terraform state."""
    for resource in state.get("resources") or ():
        if resource.get("mode") == "managed":
            for instance in resource.get("instances") or ():
                yield str(resource["type"]), instance["attributes"]


def find_protections(
    spec: EnvironmentSpec, resources: Iterable[tuple[str, Object]], contents: Mapping[tuple[str, str], Contents]
) -> Iterator[Protection]:
    """What must not be deleted. `contents`: foreign objects and tables by resource type and name."""
    for kind, attributes in resources:
        if kind in _PROTECTED and spec.deletion_protection:
            noun, field = _PROTECTED[kind]
            yield Protection(
                f"{noun} {attributes[field]}", "spec.deletionProtection is true", "set spec.deletionProtection to false"
            )
        name = container_name(kind, attributes)
        held = contents.get((kind, name)) if name else None
        if held and held.names and not spec.force_destroy:
            what, noun = ("bucket", "objects") if kind == BUCKET else ("dataset", "tables")
            remedy = "set spec.forceDestroy to true" if kind == DATASET else "set spec.forceDestroy to true, or empty the bucket"
            yield Protection(f"{what} {name}", f"contains {noun} ({held}) and spec.forceDestroy is false", remedy)


def container_name(kind: str, attributes: Object) -> str:
    """The name of a bucket or dataset; empty for other types."""
    return str(attributes[{BUCKET: "name", DATASET: "dataset_id"}[kind]]) if kind in (BUCKET, DATASET) else ""


def refuse(environment: str, protections: Iterable[Protection], verb: str) -> None:
    """Raise if anything is protected; `verb` is the command to repeat."""
    active = list(protections)
    if active:
        reasons = "; ".join(f"{item.resource}: {item.reason}" for item in active)
        remedies = "; ".join(dict.fromkeys(item.remedy for item in active))
        raise SliceworksError(f"{environment} is protected, nothing was deleted: {reasons}", hint=f"{remedies}; then {verb} again")


def lift_protections(spec: EnvironmentSpec, state: Object, emptied: Iterable[str]) -> bool:
    """Set the attributes in a state that let Terraform delete what the document allows; returns whether anything changed.

    `emptied`: buckets whose objects were all written by this environment.
    """
    own, changed = set(emptied), False
    for kind, attributes in resources_of(state):
        desired: Object = {}
        if kind in _PROTECTED and not spec.deletion_protection:
            desired = {"deletion_protection": False}
        elif kind == BUCKET and (spec.force_destroy or attributes.get("name") in own):
            desired = {"force_destroy": True}
        elif kind == DATASET and spec.force_destroy:
            desired = {"delete_contents_on_destroy": True}
        for name, value in desired.items():
            changed = changed or attributes.get(name) != value
            attributes[name] = value
    if changed:
        state["serial"] = int(state.get("serial") or 0) + 1
    return changed
