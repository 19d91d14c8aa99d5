"""What is wrong with the rules in a definition, worded as the API server words it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.cel.field_paths import field_path
from sliceworks.schemas.field_errors import FieldError, Shown, forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sliceworks.cel.rule_programs import CompiledRule, RulePrograms
    from sliceworks.schemas.structural import Schema

    Prepared = Mapping[int, Callable[[], RulePrograms]]

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)
_SHOWN_FIELDS = ("Rule", "Message", "MessageExpression", "Reason", "FieldPath", "OptionalOldSelf")


def rule_errors(schema: Schema, path: str, prepared: Prepared) -> list[FieldError]:
    """Every error in the rules of a schema and of all below it."""
    return _errors(schema, path, "", prepared)[0]


def _errors(schema: Schema, path: str, uncorrelatable: str, prepared: Prepared) -> tuple[list[FieldError], bool]:
    """The errors, and whether some are of the schema itself: then the expressions above are not looked at."""
    errors: list[FieldError] = []
    broken = False
    for child, where, within in _below(schema, path, uncorrelatable):
        found, worse = _errors(child, where, within, prepared)
        errors += found
        broken |= worse
    shape = [error for index, rule in enumerate(schema.rules) for error in _shape_errors(rule, schema, _place(path, index))]
    errors += shape
    broken |= bool(shape)
    if schema.rules and not broken:
        errors += _expression_errors(prepared[id(schema)](), path, uncorrelatable)
    return errors, broken


def _below(schema: Schema, path: str, uncorrelatable: str) -> Iterator[tuple[Schema, str, str]]:
    """Every schema below, its path, and the place within which old values are not known."""
    if schema.additional is not None:
        yield schema.additional, f"{path}.additionalProperties", uncorrelatable
    for name, child in schema.properties.items():
        yield child, f"{path}.properties[{name}]", uncorrelatable
    if schema.items is not None:
        yield schema.items, f"{path}.items", uncorrelatable if schema.list_type == "map" else path


def _place(path: str, index: int) -> str:
    return f"{path}.x-kubernetes-validations[{index}]"


def _shape_errors(rule: dict[str, Any], schema: Schema, path: str) -> Iterator[FieldError]:
    text, message = str(rule.get("rule") or "").strip(), str(rule.get("message") or "")
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    words = str(rule.get("messageExpression") or "")
    if words and not words.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    field = str(rule.get("fieldPath") or "")
    if field and not field.strip():
        yield invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if "\n" in field:
        yield invalid(f"{path}.fieldPath", field, "must not contain line breaks")
    if field and field_path(field, schema) is None:
        yield invalid(f"{path}.fieldPath", field, "must be a valid path")


def _expression_errors(programs: RulePrograms, path: str, uncorrelatable: str) -> Iterator[FieldError]:
    if programs.untyped:
        yield FieldError("InternalError", f"{path}.x-kubernetes-validations", None, _NO_TYPE)
    for index, rule in enumerate(programs.rules):
        place = _place(path, index)
        if rule.error and rule.costly:
            yield forbidden(f"{place}.rule", rule.error)
        elif rule.error:
            yield invalid(f"{place}.rule", _shown(rule), rule.error)
        if rule.message_error:
            yield invalid(f"{place}.messageExpression", _shown(rule), rule.message_error)
        if rule.uses_old and uncorrelatable:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            yield invalid(f"{place}.rule", rule.rule["rule"], detail)
        elif not rule.uses_old and rule.rule.get("optionalOldSelf") is not None:
            yield invalid(f"{place}.optionalOldSelf", rule.rule["optionalOldSelf"], "may not be set if oldSelf is not used in rule")


def _shown(rule: CompiledRule) -> Shown:
    """The whole rule as Go prints it in JSON."""
    values = {name: rule.rule.get(name[0].lower() + name[1:]) for name in _SHOWN_FIELDS}
    for name in ("Rule", "Message", "MessageExpression", "FieldPath"):
        values[name] = values[name] or ""
    text = orjson.dumps(values).decode()
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Shown(text)
