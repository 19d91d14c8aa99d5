"""From a ResourceGraphDefinition as it is written to a Definition, or to all that is wrong with its form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.graph.errors import DefinitionError
from sliceworks.graph.forms import Form
from sliceworks.graph.model import DEFAULT_GROUP, MOST_DIMENSIONS, Definition, Issue, Lifecycle, ResourceBlock, SchemaBlock
from sliceworks.graph.naming import KIND, VERSION, naming_issues

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sliceworks.graph.model import Object, Path

API_VERSION, KIND_NAME = "kro.run/v1alpha1", "ResourceGraphDefinition"
_SCHEMA_FIELDS = (
    *("kind", "apiVersion", "group", "scope", "spec", "types", "status"),
    *("additionalPrinterColumns", "shortNames", "categories", "metadata"),
)
_RESOURCE_FIELDS = ("id", "template", "externalRef", "readyWhen", "includeWhen", "forEach", "dependsOn", "lifecycle")


def read(document: Object, places: Callable[..., str] | None = None, *, dimensions: int = MOST_DIMENSIONS) -> Definition:
    """The definition; DefinitionError with everything that is wrong with its form.

    `places` tells the `file:line` of a path, as `base.yamls.Document.place` does. A `forEach` may have as many iterators as there
    are `dimensions`.
    """
    form = Form(document, places)
    definition = _definition(form, document, places)
    for issue in naming_issues(definition.resources, dimensions):
        form.wrong(issue.path, issue.message, issue.remedy)
    if form.issues:
        raise DefinitionError(sorted(form.issues, key=lambda issue: _line(issue, places)))
    return definition


def is_definition(document: Object) -> bool:
    """Whether a document is a ResourceGraphDefinition."""
    return document.get("apiVersion") == API_VERSION and document.get("kind") == KIND_NAME


def _line(issue: Issue, places: Callable[..., str] | None) -> int:
    return int(issue.place.rpartition(":")[2] or 0) if places else 0


def _definition(form: Form, document: Object, places: Callable[..., str] | None) -> Definition:
    metadata = form.mapping(("metadata",)) or {}
    spec = form.mapping(("spec",), ("schema", "resources", "lifecycle"), required=True) or {}
    schema = _schema(form)
    resources = tuple(_resource(form, index) for index in range(form.length(("spec", "resources"))))
    lifecycle = form.mapping(("spec", "lifecycle"), ("onDelete",)) if "lifecycle" in spec else {}
    on_delete = form.choice(("spec", "lifecycle", "onDelete"), ("refuse", "orphan", "cascade")) if lifecycle else None
    notes = tuple(form.notes)
    return Definition(str(metadata.get("name") or ""), schema, resources, on_delete or None, notes, document, places)  # type: ignore[arg-type]


def _schema(form: Form) -> SchemaBlock:
    path = ("spec", "schema")
    given = form.mapping(path, _SCHEMA_FIELDS, required=True) or {}
    kind = form.text((*path, "kind"), required=True)
    if kind and not KIND.match(kind):
        form.wrong((*path, "kind"), f"the kind {kind} must be UpperCamelCase, at most 63 letters and digits", "such as WebServer")
    group, version = _group_and_version(form, given)
    scope = form.choice((*path, "scope"), ("Namespaced", "Cluster")) if "scope" in given else "Namespaced"
    form.mapping((*path, "metadata"), ("labels", "annotations"))
    return SchemaBlock(
        kind=kind,
        version=version,
        group=group,
        namespaced=scope != "Cluster",
        spec=form.mapping((*path, "spec")) or {},
        types=form.mapping((*path, "types")) or {},
        status=form.mapping((*path, "status")) or {},
        columns=tuple(form.mappings((*path, "additionalPrinterColumns"))),
        short_names=form.texts((*path, "shortNames")),
        categories=form.texts((*path, "categories")),
        labels=_marks(form, (*path, "metadata", "labels")),
        annotations=_marks(form, (*path, "metadata", "annotations")),
    )


def _marks(form: Form, path: Path) -> dict[str, str]:
    return {str(key): str(value) for key, value in (form.mapping(path) or {}).items()}


def _group_and_version(form: Form, given: Object) -> tuple[str, str]:
    """The group and the version. Old definitions write both into apiVersion."""
    path = ("spec", "schema", "apiVersion")
    written = form.text(path, required=True)
    group = str(given.get("group") or "")
    prefix, slash, version = written.rpartition("/")
    if written and not VERSION.match(version):
        form.wrong(path, f"the version {version or written} is not one of Kubernetes' form", "such as v1, v1beta2 or v1alpha1")
    if not slash:
        return group or DEFAULT_GROUP, version
    if group and group != prefix:
        form.wrong(path, f"apiVersion names the group {prefix}, and group says {group}", f"write apiVersion: {version}")
    current = f"apiVersion: {version}" + ("" if prefix == DEFAULT_GROUP else f" and group: {prefix}")
    form.note(path, f"apiVersion: {written} is an old form", f"write {current}")
    return prefix, version


def _resource(form: Form, index: int) -> ResourceBlock:
    path = ("spec", "resources", index)
    given = form.mapping(path, _RESOURCE_FIELDS, required=True) or {}
    name = form.text((*path, "id"), required=True)
    template = form.mapping((*path, "template")) if "template" in given else None
    external = _external(form, path) if given.get("externalRef") is not None else None
    for_each = tuple(form.entry((*path, "forEach", each)) for each in range(form.length((*path, "forEach"))))
    if (template is None) == (external is None):
        form.wrong(path, f"resource {name} must have exactly one of template and externalRef")
    if external is not None and for_each:
        form.wrong((*path, "forEach"), f"resource {name} cannot have both externalRef and forEach")
    return ResourceBlock(
        id=name,
        index=index,
        template=template,
        external=external,
        ready_when=form.texts((*path, "readyWhen")),
        include_when=form.texts((*path, "includeWhen")),
        for_each=for_each,
        depends_on=form.texts((*path, "dependsOn")),
        lifecycle=_lifecycle(form, path) if given.get("lifecycle") is not None else Lifecycle(),
    )


def _external(form: Form, path: tuple[str | int, ...]) -> Object:
    """The reference in its current form. Old definitions write name and namespace beside an empty metadata."""
    path = (*path, "externalRef")
    given = form.mapping(path, ("apiVersion", "kind", "metadata", "name", "namespace"), required=True) or {}
    for name in ("apiVersion", "kind"):
        form.text((*path, name), required=True)
    metadata = dict(form.mapping((*path, "metadata"), ("name", "namespace", "selector")) or {})
    moved = [name for name in ("name", "namespace") if name in given]
    if moved:
        form.note((*path, moved[0]), f"{' and '.join(moved)} of externalRef stand beside metadata, an old form", _indented(moved))
    for name in moved:
        metadata.setdefault(name, given[name])
    if bool(str(metadata.get("name") or "").strip()) == (metadata.get("selector") is not None):
        form.wrong((*path, "metadata"), "externalRef must have exactly one of name and selector in its metadata")
    return {"apiVersion": given.get("apiVersion"), "kind": given.get("kind"), "metadata": metadata}


def _indented(names: Sequence[str]) -> str:
    return f"write metadata: {{{', '.join(f'{name}: …' for name in names)}}}"


def _lifecycle(form: Form, path: tuple[str | int, ...]) -> Lifecycle:
    path = (*path, "lifecycle")
    given: Any = form.mapping(path, ("onDelete", "onComplete"), required=True) or {}
    on_delete = form.choice((*path, "onDelete"), ("delete", "retain", "restore")) if "onDelete" in given else ""
    on_complete = form.choice((*path, "onComplete"), ("recreate", "keep")) if "onComplete" in given else ""
    return Lifecycle(on_delete or "delete", on_complete or "recreate")  # type: ignore[arg-type]
