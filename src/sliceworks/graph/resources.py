"""Parses the resources of a definition and validates everything that does not need compiled expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.base.names import suggest_name
from sliceworks.graph import templates
from sliceworks.graph.model import Issue, NodeType
from sliceworks.graph.templates import ParsedTemplate, parse_template
from sliceworks.kube.selectors import from_label_selector
from sliceworks.schemas.builtins import builtin_scheme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.graph.kinds import Kind, Kinds
    from sliceworks.graph.model import Object, Path, ResourceBlock

_RESERVED_PREFIXES = ("kro.run/", "internal.kro.run/")
_BAD_SELECTOR = "selector: must be a LabelSelector, or one ${…} that returns it"
_LABEL_SELECTOR = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
_DEFINITION = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True, eq=False)
class ParsedResource:
    """A resource whose expressions are not compiled yet. `kind` is None if it is unknown."""

    block: ResourceBlock
    type: NodeType
    template: Object
    kind: Kind | None
    parsed_template: ParsedTemplate

    @property
    def id(self) -> str:
        """The resource's id."""
        return self.block.id

    @property
    def root(self) -> Path:
        """The path of its template in the document."""
        return self.parsed_template.root


def parse_resource(block: ResourceBlock, kinds: Kinds, *, instance_namespaced: bool) -> ParsedResource:
    """Parse a resource; the issues are in its parsed template."""
    template = block.template if block.template is not None else block.external or {}
    root = (*block.path, "template" if block.template is not None else "externalRef")
    node_type = _node_type(block, template)
    parsed = ParsedTemplate(root)
    kind = _kind(template, kinds, parsed) if _is_kubernetes_object(template, parsed) else None
    if kind is not None:
        schema = None if node_type.is_external or (kind.group, kind.version, kind.kind) == _DEFINITION else kind.schema
        parsed = parse_template(template, schema, root)
        for issue in _constraints(block, node_type, template, kind, instance_namespaced):
            parsed.add_issue(issue.path, issue.message, issue.hint)
        if node_type is NodeType.EXTERNAL_COLLECTION:
            _check_selector(template["metadata"]["selector"], parsed)
        elif schema is None and not node_type.is_external:
            _check_definition(parsed)
    else:
        parsed.fields.extend(parse_template(template, None, root).fields)
    return ParsedResource(block, node_type, template, kind, parsed)


def _node_type(block: ResourceBlock, template: Object) -> NodeType:
    if block.external is not None:
        selector = (template.get("metadata") or {}).get("selector")
        return NodeType.EXTERNAL if selector is None else NodeType.EXTERNAL_COLLECTION
    return NodeType.COLLECTION if block.for_each else NodeType.RESOURCE


def _is_kubernetes_object(template: Object, parsed: ParsedTemplate) -> bool:
    is_valid = True
    for name, kind in (("apiVersion", str), ("kind", str), ("metadata", dict)):
        if not isinstance(template.get(name), kind):
            is_valid = False
            problem = "has no" if template.get(name) is None else "has an invalid"
            parsed.add_issue((name,), f"template {problem} {name}", f"every object needs {name}")
    return is_valid


def _kind(template: Object, kinds: Kinds, parsed: ParsedTemplate) -> Kind | None:
    version, name = template["apiVersion"], template["kind"]
    for field in ("apiVersion", "kind"):
        if templates.has_expressions(template[field]):
            parsed.add_issue((field,), f"{field} must not be an expression")
            return None
    kind = kinds.find(version, name)
    if kind is None:
        parsed.add_issue(("kind",), f"unknown kind {name} in {version}", _closest_kind(version, name, kinds))
    return kind


def _closest_kind(version: str, name: str, kinds: Kinds) -> str:
    known = list(kinds.names())
    versions = sorted({api_version for api_version, kind in known if kind == name})
    if versions:
        return f"{name} exists in {' and '.join(versions)}"
    group = version.rpartition("/")[0]
    same = [kind for api_version, kind in known if api_version.rpartition("/")[0] == group]
    return suggest_name(name, same) or "install its CustomResourceDefinition first"


def _constraints(
    block: ResourceBlock, node_type: NodeType, template: Object, kind: Kind, instance_namespaced: bool
) -> Iterator[Issue]:
    namespace = template["metadata"].get("namespace")
    path = ("metadata", "namespace")
    if not kind.namespaced and "namespace" in template["metadata"]:
        message = f"{block.id}: {kind.kind} is cluster-scoped and must not have a namespace"
        yield Issue(path, message, hint="remove metadata.namespace")
    named = isinstance(namespace, str) and namespace.strip()
    if kind.namespaced and not instance_namespaced and not named and node_type is not NodeType.EXTERNAL_COLLECTION:
        message = f"{block.id}: metadata.namespace is required, because instances are cluster-scoped"
        yield Issue(path, message, hint="set metadata.namespace")
    for field in ("labels", "annotations"):
        names = template["metadata"].get(field)
        for name in names if isinstance(names, dict) else ():
            if name.startswith(_RESERVED_PREFIXES):
                prefix = next(prefix for prefix in _RESERVED_PREFIXES if name.startswith(prefix))
                yield Issue(
                    ("metadata", field, name), f"{field} with the prefix {prefix} are reserved", hint="choose another prefix"
                )


def _check_definition(parsed: ParsedTemplate) -> None:
    """A CustomResourceDefinition may contain expressions in its metadata only."""
    for field in parsed.fields:
        if field.path[0] != "metadata":
            hint = "replace it by a literal"
            parsed.add_issue(field.path, "expressions in a CustomResourceDefinition are allowed in metadata only", hint, field.text)


def _check_selector(selector: Any, parsed: ParsedTemplate) -> None:
    path = ("metadata", "selector")
    if isinstance(selector, str):
        if templates.standalone_expression(selector) is None:
            parsed.add_issue(path, _BAD_SELECTOR)
        return
    if not isinstance(selector, dict):
        parsed.add_issue(path, _BAD_SELECTOR, "such as {matchLabels: {app: web}}")
        return
    checked = parse_template(selector, builtin_scheme().component(_LABEL_SELECTOR), parsed.root, path)
    parsed.issues.extend(checked.issues)
    if not checked.issues and not checked.fields:
        try:
            from_label_selector(selector)
        except (BadRequest, ValueError) as error:
            parsed.add_issue(path, f"selector: {error}")
