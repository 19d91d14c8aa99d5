"""CustomResourceDefinitions: names, versions, subresources, printer columns, conversion, and changes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from sliceworks.base import names as rules
from sliceworks.base.conditions import is_condition_true
from sliceworks.schemas import formats
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.schemas.field_errors import FieldError, Rendered, duplicate, forbidden, invalid, not_supported, required, too_many
from sliceworks.schemas.model import Schema, build
from sliceworks.twin.apiserver.validation.crd_schema import default_errors, keyword_errors, structure_errors, uses_unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    CompileRules = Callable[[Schema, str], list[FieldError]]

Node = dict[str, Any]
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MIXED_CASE = "may have mixed case, but should otherwise match: "
_URL_FORM = "; desired format: https://host[/path]"
_MOST_SELECTABLE = 8


def definition_errors(
    definition: Node,
    old: Node | None = None,
    compile_rules: CompileRules | None = None,
) -> list[FieldError]:
    """Errors of a CustomResourceDefinition, and with `old` of the update from it.

    `compile_rules` returns the errors of the CEL rules in the schema at a path; it is called for valid schemas only.
    """
    errors = list(spec_errors(definition, compile_rules))
    return errors if old is None else [*errors, *update_errors(definition, old)]


def definition_warnings(definition: Node) -> list[str]:
    """Warnings about unrecognized formats, which are accepted and ignored."""
    roots = [(item.get("schema") or {}).get("openAPIV3Schema") or {} for item in definition["spec"].get("versions") or ()]
    unknown = dict.fromkeys(name for root in roots for name in _unknown_formats(root))
    return [f'unrecognized format "{name}"' for name in unknown]


def _unknown_formats(node: Node) -> Iterator[str]:
    if node.get("format") and node.get("type") == "string" and formats.normalize(node["format"]) is None:
        yield node["format"]
    for child in (node.get("properties") or {}).values():
        yield from _unknown_formats(child)
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(node.get(keyword), dict):
            yield from _unknown_formats(node[keyword])
    for keyword in ("allOf", "anyOf", "oneOf"):
        for branch in node.get(keyword) or ():
            yield from _unknown_formats(branch)


def name_errors(names: Node, path: str) -> Iterator[FieldError]:
    for field in ("plural", "singular"):
        messages = rules.dns1035_label_errors(names[field]) if names.get(field) else []
        if messages:
            yield invalid(f"{path}.{field}", names[field], ",".join(messages))
    for field in ("kind", "listKind"):
        messages = rules.dns1035_label_errors(names[field].lower()) if names.get(field) else []
        if messages:
            yield invalid(f"{path}.{field}", names[field], _MIXED_CASE + ",".join(messages))
    for index, name in enumerate(names.get("shortNames") or ()):
        messages = rules.dns1035_label_errors(name)
        if messages:
            yield invalid(f"{path}.shortNames[{index}]", name, ",".join(messages))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for index, name in enumerate(names.get("categories") or ()):
        messages = rules.dns1035_label_errors(name)
        if messages:
            yield invalid(f"{path}.categories[{index}]", name, ",".join(messages))


def subresource_errors(subresources: Node | None, path: str) -> Iterator[FieldError]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for field, parent in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value, child_path = scale.get(field, ""), f"{path}.scale.{field}"
        errors = [required(child_path)] if not value else list(_json_path(value, child_path))
        if not errors and not value.startswith(parent + "."):
            errors = [invalid(child_path, value, f"should be a json path under {parent}")]
        yield from errors
    selector, child_path = scale.get("labelSelectorPath"), f"{path}.scale.labelSelectorPath"
    if selector:
        errors = list(_json_path(selector, child_path))
        if not errors and not selector.startswith((".spec.", ".status.")):
            errors = [invalid(child_path, selector, "should be a json path under either .spec or .status")]
        yield from errors


def _json_path(value: str, path: str) -> Iterator[FieldError]:
    if not value.startswith("."):
        yield invalid(path, value, "must be a simple json path starting with .")


def column_errors(columns: list[Node] | None, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns or ()):
        child_path = f"{path}[{index}]"
        if not column.get("name"):
            yield required(f"{child_path}.name")
        allowed = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("type"):
            yield required(f"{child_path}.type", allowed)
        elif column["type"] not in _COLUMN_TYPES:
            yield invalid(f"{child_path}.type", column["type"], allowed)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield invalid(f"{child_path}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not column.get("jsonPath"):
            yield required(f"{child_path}.JSONPath")
        else:
            yield from _json_path(column["jsonPath"], f"{child_path}.JSONPath")


def selectable_errors(fields: list[Node] | None, root: Node, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields or ()):
        json_path, child_path = field.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not json_path:
            yield required(child_path)
            continue
        problem, node = _resolved(json_path, root)
        if problem:
            yield invalid(child_path, json_path, f"is an invalid path: {problem}")
            continue
        if json_path.lstrip(".").partition(".")[0] == "metadata":
            yield invalid(child_path, json_path, "must not point to fields in metadata")
        if node.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            )
            yield invalid(child_path, json_path, detail)
        if json_path in seen:
            yield duplicate(child_path, json_path)
        seen.add(json_path)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


def _resolved(json_path: str, root: Node) -> tuple[str, Node]:
    """The schema node at a JSON path, or the reason why the path is invalid."""
    if "[" in json_path:
        return "array notation is not allowed", {}
    node = root
    for name in json_path.lstrip(".").split("."):
        child = (node.get("properties") or {}).get(name)
        if child is None:
            return "does not refer to a valid field", {}
        node = child
    return "", node


def conversion_errors(conversion: Node | None, path: str) -> Iterator[FieldError]:
    if conversion is None:
        return
    strategy = conversion.get("strategy") or ""
    webhook = conversion.get("webhook")
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        if (webhook or {}).get("clientConfig") is not None:
            yield forbidden(f"{path}.webhookClientConfig", detail)
        if (webhook or {}).get("conversionReviewVersions"):
            yield forbidden(f"{path}.conversionReviewVersions", detail)
        return
    client = (webhook or {}).get("clientConfig")
    if client is None:
        yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_config_errors(client, f"{path}.webhookClientConfig")
    yield from review_version_errors((webhook or {}).get("conversionReviewVersions") or [], f"{path}.conversionReviewVersions")


def client_config_errors(client: Node, path: str) -> Iterator[FieldError]:
    """Errors of a webhook's URL or Service."""
    if (client.get("url") is None) == (client.get("service") is None):
        yield required(path, "exactly one of url or service is required")
    elif client.get("url") is not None:
        yield from _url(client["url"], f"{path}.url")
    else:
        yield from _service(client["service"], f"{path}.service")


def _service(service: Node, path: str) -> Iterator[FieldError]:
    for field in ("name", "namespace"):
        if not service.get(field):
            yield required(f"{path}.{field}")
    port, url_path = service.get("port", 443), service.get("path") or ""
    if not 1 <= port <= 65535:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if url_path in ("", "/"):
        return
    if not url_path.startswith("/"):
        yield invalid(f"{path}.path", url_path, "must start with a '/'")
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(f"{path}.path", url_path, f"segment[{index}] may not be empty")
            continue
        for problem in rules.dns1123_subdomain_errors(segment):
            yield invalid(f"{path}.path", url_path, f"segment[{index}]: {problem}")


def _url(url: str, path: str) -> Iterator[FieldError]:
    parts = urlsplit(url)
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, "'https' is the only allowed URL scheme" + _URL_FORM)
    if not parts.netloc:
        yield invalid(path, "", "host must be specified" + _URL_FORM)
    if parts.username is not None:
        yield invalid(path, parts.username, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def review_version_errors(versions: list[str], path: str, absent: str = "") -> Iterator[FieldError]:
    """Errors in the versions of AdmissionReview or ConversionReview that a webhook accepts."""
    if not versions:
        yield required(path, absent)
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        for message in rules.dns1035_label_errors(version):
            yield invalid(f"{path}[{index}]", version, message)
    if not {"v1", "v1beta1"} & set(versions):
        yield invalid(path, versions, "must include at least one of v1, v1beta1")


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

# Fields equal in all versions are validated once, at the top-level path of the internal type, as upstream does.
_SHARED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def spec_errors(definition: Node, compile_rules: CompileRules | None = None) -> Iterator[FieldError]:
    """Errors of a definition. Of the metadata only the name is checked here; `object_meta` validates the rest."""
    spec, status = definition["spec"], definition.get("status") or {}
    expected = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    name = definition["metadata"].get("name", "")
    if name and name != expected:
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from _spec(spec, compile_rules)
    yield from name_errors(status.get("acceptedNames") or {}, "status.acceptedNames")
    yield from _stored_versions(status.get("storedVersions") or [], spec.get("versions") or [])
    yield from _approval(definition)
    if spec.get("preserveUnknownFields"):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, detail)


def update_errors(new: Node, old: Node) -> Iterator[FieldError]:
    """Errors of changed immutable fields."""
    fields = [("group",), ("names", "plural")]
    if is_condition_true(old, "Established"):
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
    elif messages := rules.dns1123_subdomain_errors(group):
        yield invalid("spec.group", group, ",".join(messages))
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
    if versions and (messages := rules.dns1035_label_errors(versions[0].get("name") or "")) and versions[0].get("name"):
        yield invalid("spec.version", versions[0]["name"], ",".join(messages))
    for field in ("plural", "singular", "kind", "listKind"):
        if not spec["names"].get(field):
            yield required(f"spec.names.{field}")
    yield from name_errors(spec["names"], "spec.names")
    if versions:
        paths = {part: f"spec.{name}" for part, name in _SHARED.items() if part in shared}
        status = any("status" in (version.get("subresources") or {}) for version in versions)
        yield from _parts(versions[0], paths, status, compile_rules)
    yield from conversion_errors(spec.get("conversion"), "spec.conversion")


def _shared(versions: list[Node]) -> set[str]:
    """The per-version fields that are equal in all versions."""
    return {part for part in _SHARED if versions and all(item.get(part) == versions[0].get(part) for item in versions)}


def _version(version: Node, path: str, shared: set[str], compile_rules: CompileRules | None) -> Iterator[FieldError]:
    name = version.get("name") or ""
    messages = rules.dns1035_label_errors(name)
    if messages:
        yield invalid(f"{path}.name", name, ",".join(messages))
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
    """Errors of the per-version fields, reported at the given paths."""
    root = (version.get("schema") or {}).get("openAPIV3Schema")
    if "schema" in paths and root is not None:
        yield from schema_errors(root, f"{paths['schema']}.openAPIV3Schema", status, compile_rules)
    if "subresources" in paths:
        yield from subresource_errors(version.get("subresources"), paths["subresources"])
    if "additionalPrinterColumns" in paths:
        yield from column_errors(version.get("additionalPrinterColumns"), paths["additionalPrinterColumns"])
    if "selectableFields" in paths:
        yield from selectable_errors(version.get("selectableFields"), root or {}, paths["selectableFields"])


def schema_errors(root: Node, path: str, status: bool, compile_rules: CompileRules | None) -> list[FieldError]:
    """Errors of the schema of a version."""
    errors: list[FieldError] = []
    if status:
        errors += _root_with_status(root, path)
    if root.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    keywords = keyword_errors(root, path)
    # Upstream skips the structural checks when unsupported keywords are used.
    structure = [] if uses_unsupported(root) else structure_errors(root, path)
    schema = None if structure or keywords else build(root, builtin_scheme().component)
    defaults = list(default_errors(schema, path)) if schema is not None else []
    errors += [*structure, *defaults, *keywords]
    if schema is not None and not defaults and compile_rules is not None:
        from sliceworks.schemas.crds import with_type_and_metadata

        errors += compile_rules(build(with_type_and_metadata(root), builtin_scheme().component), path)
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


def _shown_versions(versions: list[Node], shared: set[str]) -> Rendered:
    """The versions as kube-apiserver prints them: with Go field names and without the fields equal in all versions."""
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
    return Rendered(orjson.dumps(shown or None).decode())


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
    """Errors of the approval annotation, which protected groups of the Kubernetes project require."""
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
