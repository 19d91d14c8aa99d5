"""Everything wrong with a CustomResourceDefinition, as kube-apiserver says it, on create and on update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from sliceworks.base import names as rules
from sliceworks.base.conditions import is_true
from sliceworks.schemas.builtins import catalogue
from sliceworks.schemas.definitions import parts
from sliceworks.schemas.definitions.default_values import default_errors
from sliceworks.schemas.definitions.keywords import keyword_errors, uses_unsupported
from sliceworks.schemas.definitions.structure import structure_errors
from sliceworks.schemas.field_errors import FieldError, Shown, forbidden, invalid, not_supported, required
from sliceworks.schemas.model import Schema, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # Compiles the rules in a schema that stands at a path of the definition, and says what is wrong with them.
    CompileRules = Callable[[Schema, str], list[FieldError]]

Node = dict[str, Any]

_IMMUTABLE = "field is immutable"
_APPROVAL = "api-approved.kubernetes.io"
_ENHANCEMENT = "see https://github.com/kubernetes/enhancements/pull/1111"
_AT_ROOT = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems "
    "UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations"
)
_KEYWORDS_AT_ROOT = {name[0].lower() + name[1:] for name in _AT_ROOT.split()} | {
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}
# What all versions share is judged once, under the name it had when a definition had one version.
_SHARED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def definition_errors(definition: Node, compile_rules: CompileRules | None = None) -> Iterator[FieldError]:
    """What is wrong with a definition, metadata aside from the name's form left to the rules of all objects."""
    spec, status = definition["spec"], definition.get("status") or {}
    wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    name = definition["metadata"].get("name", "")
    if name and name != wanted:
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from _spec(spec, compile_rules)
    yield from parts.name_errors(status.get("acceptedNames") or {}, "status.acceptedNames")
    yield from _stored_versions(status.get("storedVersions") or [], spec.get("versions") or [])
    yield from _approval(definition)
    if spec.get("preserveUnknownFields"):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, detail)


def update_errors(new: Node, old: Node) -> Iterator[FieldError]:
    """What may not change in a definition."""
    fields = [("group",), ("names", "plural")]
    if is_true(old, "Established"):
        fields = [("scope",), ("names", "kind"), *fields]
    for field in fields:
        value, before = new["spec"], old["spec"]
        for key in field:
            value, before = value.get(key, ""), before.get(key, "")
        if value != before:
            yield invalid("spec." + ".".join(field), value, _IMMUTABLE)


def _spec(spec: Node, compile_rules: CompileRules | None) -> Iterator[FieldError]:
    group, scope, versions = spec.get("group") or "", spec.get("scope") or "", spec.get("versions") or []
    if not group:
        yield required("spec.group")
    elif wrong := rules.dns1123_subdomain_errors(group):
        yield invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    shared = _shared(versions)
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        yield from _version(version, f"spec.versions[{index}]", shared, compile_rules)
    yield from _version_set(versions, shared)
    if versions and (wrong := rules.dns1035_label_errors(versions[0].get("name") or "")) and versions[0].get("name"):
        yield invalid("spec.version", versions[0]["name"], ",".join(wrong))
    for field in ("plural", "singular", "kind", "listKind"):
        if not spec["names"].get(field):
            yield required(f"spec.names.{field}")
    yield from parts.name_errors(spec["names"], "spec.names")
    if versions:
        paths = {part: f"spec.{name}" for part, name in _SHARED.items() if part in shared}
        status = any("status" in (version.get("subresources") or {}) for version in versions)
        yield from _parts(versions[0], paths, status, compile_rules)
    yield from parts.conversion_errors(spec.get("conversion"), "spec.conversion")


def _shared(versions: list[Node]) -> set[str]:
    """Which parts are the same in all versions."""
    return {part for part in _SHARED if versions and all(item.get(part) == versions[0].get(part) for item in versions)}


def _version(version: Node, path: str, shared: set[str], compile_rules: CompileRules | None) -> Iterator[FieldError]:
    name = version.get("name") or ""
    wrong = rules.dns1035_label_errors(name)
    if wrong:
        yield invalid(f"{path}.name", name, ",".join(wrong))
    warning = version.get("deprecationWarning")
    if warning is not None:
        for text in _warning(warning, bool(version.get("deprecated"))):
            yield invalid(f"{path}.deprecationWarning", warning, text)
    own = {part: f"{path}.{part}" for part in _SHARED if part not in shared}
    yield from _parts(version, own, "status" in (version.get("subresources") or {}), compile_rules)


def _warning(text: str, deprecated: bool) -> Iterator[str]:
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(text.encode()) > 256:
        yield "must be <= 256 characters long"
    if not text:
        yield "must not be an empty string"
    odd = next((index for index, character in enumerate(text) if not character.isprintable()), None)
    if odd is not None:
        yield f"must only contain printable UTF-8 characters; non-printable character found at index {odd}"


def _parts(version: Node, paths: dict[str, str], status: bool, compile_rules: CompileRules | None) -> Iterator[FieldError]:
    """The parts of a version that stand at these paths."""
    root = (version.get("schema") or {}).get("openAPIV3Schema")
    if "schema" in paths and root is not None:
        yield from schema_errors(root, f"{paths['schema']}.openAPIV3Schema", status, compile_rules)
    if "subresources" in paths:
        yield from parts.subresource_errors(version.get("subresources"), paths["subresources"])
    if "additionalPrinterColumns" in paths:
        yield from parts.column_errors(version.get("additionalPrinterColumns"), paths["additionalPrinterColumns"])
    if "selectableFields" in paths:
        yield from parts.selectable_errors(version.get("selectableFields"), root or {}, paths["selectableFields"])


def schema_errors(root: Node, path: str, status: bool, compile_rules: CompileRules | None) -> list[FieldError]:
    """What is wrong with the schema of a version."""
    errors: list[FieldError] = []
    if status:
        errors += _root_with_status(root, path)
    if root.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    keywords = keyword_errors(root, path)
    # A schema with keywords that do not exist here has no structure to speak of.
    structure = [] if uses_unsupported(root) else structure_errors(root, path)
    schema = None if structure or keywords else build(root, catalogue().component)
    defaults = list(default_errors(schema, path)) if schema is not None else []
    errors += [*structure, *defaults, *keywords]
    if schema is not None and not defaults and compile_rules is not None:
        from sliceworks.schemas.crds import with_type_and_metadata

        errors += compile_rules(build(with_type_and_metadata(root), catalogue().component), path)
    return errors


def _root_with_status(root: Node, path: str) -> Iterator[FieldError]:
    if root.get("type") and root["type"] != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid(f"{path}.type", root["type"], detail)
    elif {key for key, value in root.items() if value not in (None, False, "", [], {})} - _KEYWORDS_AT_ROOT:
        detail = f"only [{_AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(path, root, detail)


def _version_set(versions: list[Node], shared: set[str]) -> Iterator[FieldError]:
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        yield invalid("spec.versions", _shown_versions(versions, shared), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = _shown_versions(versions, shared)
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")


def _shown_versions(versions: list[Node], shared: set[str]) -> Shown:
    """The versions as the server prints them: by Go's names, without what they share."""
    shown = [
        {
            "Name": version.get("name", ""),
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
            **{part[0].upper() + part[1:]: None if part in shared else version.get(part) for part in _SHARED},
        }
        for version in versions
    ]
    return Shown(orjson.dumps(shown or None).decode())


def _stored_versions(stored: list[str], versions: list[Node]) -> Iterator[FieldError]:
    path = "status.storedVersions"
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    names = {version.get("name") for version in versions}
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            yield invalid(path, stored, f"must have the storage version {version.get('name')}")
    for index, name in enumerate(stored):
        if name not in names:
            yield invalid(
                f"{path}[{index}]",
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a "
                f"storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions",
            )


def _approval(definition: Node) -> Iterator[FieldError]:
    """Groups of the Kubernetes project itself need a note that says who approved them."""
    group = definition["spec"].get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    path = f"metadata.annotations[{_APPROVAL}]"
    note = (definition["metadata"].get("annotations") or {}).get(_APPROVAL, "")
    if not note:
        yield required(path, f'protected groups must have approval annotation "{_APPROVAL}", {_ENHANCEMENT}')
    elif not note.startswith("unapproved") and not (urlsplit(note).scheme and urlsplit(note).netloc):
        detail = (
            f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting with "unapproved"'
        )
        yield invalid(path, note, f"{detail}, {_ENHANCEMENT}")
