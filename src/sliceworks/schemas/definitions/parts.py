"""The parts of a definition besides its schemas: names, subresources, printer columns, selectable fields, conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sliceworks.base import names as rules
from sliceworks.schemas.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_many

if TYPE_CHECKING:
    from collections.abc import Iterator

Node = dict[str, Any]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MIXED_CASE = "may have mixed case, but should otherwise match: "
_URL_FORM = "; desired format: https://host[/path]"
_MOST_SELECTABLE = 8


def name_errors(names: Node, path: str) -> Iterator[FieldError]:
    for field in ("plural", "singular"):
        wrong = rules.dns1035_label_errors(names[field]) if names.get(field) else []
        if wrong:
            yield invalid(f"{path}.{field}", names[field], ",".join(wrong))
    for field in ("kind", "listKind"):
        wrong = rules.dns1035_label_errors(names[field].lower()) if names.get(field) else []
        if wrong:
            yield invalid(f"{path}.{field}", names[field], _MIXED_CASE + ",".join(wrong))
    for index, name in enumerate(names.get("shortNames") or ()):
        wrong = rules.dns1035_label_errors(name)
        if wrong:
            yield invalid(f"{path}.shortNames[{index}]", name, ",".join(wrong))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for index, name in enumerate(names.get("categories") or ()):
        wrong = rules.dns1035_label_errors(name)
        if wrong:
            yield invalid(f"{path}.categories[{index}]", name, ",".join(wrong))


def subresource_errors(subresources: Node | None, path: str) -> Iterator[FieldError]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for field, parent in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value, place = scale.get(field, ""), f"{path}.scale.{field}"
        wrong = [required(place)] if not value else list(_json_path(value, place))
        if not wrong and not value.startswith(parent + "."):
            wrong = [invalid(place, value, f"should be a json path under {parent}")]
        yield from wrong
    selector, place = scale.get("labelSelectorPath"), f"{path}.scale.labelSelectorPath"
    if selector:
        wrong = list(_json_path(selector, place))
        if not wrong and not selector.startswith((".spec.", ".status.")):
            wrong = [invalid(place, selector, "should be a json path under either .spec or .status")]
        yield from wrong


def _json_path(text: str, path: str) -> Iterator[FieldError]:
    if not text.startswith("."):
        yield invalid(path, text, "must be a simple json path starting with .")


def column_errors(columns: list[Node] | None, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns or ()):
        place = f"{path}[{index}]"
        if not column.get("name"):
            yield required(f"{place}.name")
        allowed = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("type"):
            yield required(f"{place}.type", allowed)
        elif column["type"] not in _COLUMN_TYPES:
            yield invalid(f"{place}.type", column["type"], allowed)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield invalid(f"{place}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not column.get("jsonPath"):
            yield required(f"{place}.JSONPath")
        else:
            yield from _json_path(column["jsonPath"], f"{place}.JSONPath")


def selectable_errors(fields: list[Node] | None, root: Node, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields or ()):
        text, place = field.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not text:
            yield required(place)
            continue
        problem, found = _resolved(text, root)
        if problem:
            yield invalid(place, text, f"is an invalid path: {problem}")
            continue
        if text.lstrip(".").partition(".")[0] == "metadata":
            yield invalid(place, text, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            )
            yield invalid(place, text, detail)
        if text in seen:
            yield duplicate(place, text)
        seen.add(text)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


def _resolved(text: str, root: Node) -> tuple[str, Node]:
    """The node a path leads to, or what is wrong with the path."""
    if "[" in text:
        return "array notation is not allowed", {}
    node = root
    for name in text.lstrip(".").split("."):
        below = (node.get("properties") or {}).get(name)
        if below is None:
            return "does not refer to a valid field", {}
        node = below
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
    yield from _client((webhook or {}).get("clientConfig"), f"{path}.webhookClientConfig")
    yield from _review_versions((webhook or {}).get("conversionReviewVersions") or [], f"{path}.conversionReviewVersions")


def _client(client: Node | None, path: str) -> Iterator[FieldError]:
    if client is None:
        yield required(path, "required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield required(path, "exactly one of url or service is required")
    elif client.get("url") is not None:
        yield from _url(client["url"], f"{path}.url")
    else:
        for field in ("name", "namespace"):
            if not client["service"].get(field):
                yield required(f"{path}.service.{field}")


def _url(text: str, path: str) -> Iterator[FieldError]:
    parts = urlsplit(text)
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


def _review_versions(versions: list[str], path: str) -> Iterator[FieldError]:
    if not versions:
        yield required(path)
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        for wrong in rules.dns1035_label_errors(version):
            yield invalid(f"{path}[{index}]", version, wrong)
    if not {"v1", "v1beta1"} & set(versions):
        yield invalid(path, versions, "must include at least one of v1, v1beta1")
