"""The resources of a definition before their expressions are compiled: what they are, and what is wrong with what is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.base.words import closest
from sliceworks.graph import texts
from sliceworks.graph.model import Issue, Role
from sliceworks.graph.templates import Survey, survey
from sliceworks.kube.selectors import from_label_selector
from sliceworks.schemas.builtins import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.graph.kinds import Kind, Kinds
    from sliceworks.graph.model import Object, Path, ResourceBlock

_OWN_PREFIXES = ("kro.run/", "internal.kro.run/")
_LABEL_SELECTOR = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
_DEFINITION = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A resource whose expressions are not compiled yet. `kind` is None where nobody knows it."""

    block: ResourceBlock
    role: Role
    template: Object
    kind: Kind | None
    survey: Survey

    @property
    def root(self) -> Path:
        """Where its template stands in the document."""
        return self.survey.root


def draft(block: ResourceBlock, kinds: Kinds, *, instance_namespaced: bool) -> Draft:
    """Look a resource over. Its survey holds every issue."""
    template = block.template if block.template is not None else block.external or {}
    root = (*block.path, "template" if block.template is not None else "externalRef")
    role = _role(block, template)
    found = Survey(root)
    kind = _kind(template, kinds, found) if _is_object(template, found) else None
    if kind is not None:
        schema = None if role.is_external or (kind.group, kind.version, kind.kind) == _DEFINITION else kind.schema
        found = survey(template, schema, root)
        for issue in _constraints(block, role, template, kind, instance_namespaced):
            found.wrong(issue.path, issue.message, issue.remedy)
        if role is Role.EXTERNAL_COLLECTION:
            _check_selector(template["metadata"]["selector"], found)
        elif schema is None and not role.is_external:
            _check_definition(found)
    else:
        found.slots.extend(survey(template, None, root).slots)
    return Draft(block, role, template, kind, found)


def _role(block: ResourceBlock, template: Object) -> Role:
    if block.external is not None:
        selector = (template.get("metadata") or {}).get("selector")
        return Role.EXTERNAL if selector is None else Role.EXTERNAL_COLLECTION
    return Role.COLLECTION if block.for_each else Role.RESOURCE


def _is_object(template: Object, found: Survey) -> bool:
    wrong = False
    for name, kind in (("apiVersion", str), ("kind", str), ("metadata", dict)):
        if not isinstance(template.get(name), kind):
            wrong = True
            problem = "has no" if template.get(name) is None else "has a wrong"
            found.wrong((name,), f"the template {problem} {name}", f"every object needs {name}")
    return not wrong


def _kind(template: Object, kinds: Kinds, found: Survey) -> Kind | None:
    version, name = template["apiVersion"], template["kind"]
    for field in ("apiVersion", "kind"):
        if texts.has_expressions(template[field]):
            found.wrong((field,), f"{field} cannot be an expression: it is needed before anything runs")
            return None
    kind = kinds.find(version, name)
    if kind is None:
        found.wrong(("kind",), f"unknown kind {name} of {version}", _closest_kind(version, name, kinds))
    return kind


def _closest_kind(version: str, name: str, kinds: Kinds) -> str:
    known = list(kinds.names())
    versions = sorted({each for each, kind in known if kind == name})
    if versions:
        return f"{name} is known in {' and '.join(versions)}"
    group = version.rpartition("/")[0]
    same = [kind for each, kind in known if each.rpartition("/")[0] == group]
    return closest(name, same) or "its CustomResourceDefinition must be there first"


def _constraints(block: ResourceBlock, role: Role, template: Object, kind: Kind, instance_namespaced: bool) -> Iterator[Issue]:
    namespace = template["metadata"].get("namespace")
    path = ("metadata", "namespace")
    if not kind.namespaced and "namespace" in template["metadata"]:
        message = f"{kind.kind} is not namespaced, so {block.id} must not have a namespace"
        yield Issue(path, message, remedy="remove metadata.namespace")
    named = isinstance(namespace, str) and namespace.strip()
    if kind.namespaced and not instance_namespaced and not named and role is not Role.EXTERNAL_COLLECTION:
        message = f"{block.id} needs a namespace: instances have none, because the schema's scope is Cluster"
        yield Issue(path, message, remedy="add metadata.namespace")
    for field in ("labels", "annotations"):
        given = template["metadata"].get(field)
        for name in given if isinstance(given, dict) else ():
            if name.startswith(_OWN_PREFIXES):
                prefix = next(prefix for prefix in _OWN_PREFIXES if name.startswith(prefix))
                yield Issue(
                    ("metadata", field, name), f"{field} that begin with {prefix} are reserved", remedy="choose another prefix"
                )


def _check_definition(found: Survey) -> None:
    """Expressions in a CustomResourceDefinition may stand in its metadata only."""
    for slot in found.slots:
        if slot.path[0] != "metadata":
            remedy = "write the value itself"
            found.wrong(slot.path, "expressions in a CustomResourceDefinition may stand in metadata only", remedy, slot.text)


def _check_selector(selector: Any, found: Survey) -> None:
    path = ("metadata", "selector")
    if isinstance(selector, str):
        if texts.lone(selector) is None:
            found.wrong(path, "selector must be a LabelSelector, or one ${…} that gives it")
        return
    if not isinstance(selector, dict):
        found.wrong(path, "selector must be a LabelSelector, or one ${…} that gives it", "such as {matchLabels: {app: web}}")
        return
    checked = survey(selector, catalogue().component(_LABEL_SELECTOR), found.root, path)
    found.issues.extend(checked.issues)
    if not checked.issues and not checked.slots:
        try:
            from_label_selector(selector)
        except (BadRequest, ValueError) as error:
            found.wrong(path, f"selector: {error}")
