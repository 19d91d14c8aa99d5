"""Compiled validation rules of one schema node, and the errors of rules in a definition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.cel import cost, sizes
from sliceworks.cel.dialect import KUBERNETES
from sliceworks.cel.engine import CostExceeded, EvaluationError, NoSuchOverload
from sliceworks.cel.environment import CompileError, Environment, Program, Variable
from sliceworks.cel.values import converter, replace_nul
from sliceworks.schemas import MISSING
from sliceworks.schemas.field_errors import OMITTED, FieldError, Rendered, forbidden, invalid, not_supported, required
from sliceworks.schemas.golang import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sliceworks.cel.rules import CorrelatedValue
    from sliceworks.schemas import Schema

    Prepared = Mapping[int, Callable[[], "RulePrograms"]]

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def parse_field_path(text: str, schema: Schema) -> str | None:
    """The field path in the format of errors, or None if the schema has no such field."""
    parsed, position = "", 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return None
        name = step["name"] if step["name"] is not None else _unquoted(step["quoted"])
        if name is None:
            return None
        child = schema.properties.get(name) if schema.properties else schema.additional
        if child is None:
            return None
        parsed += (f".{name}" if parsed else name) if schema.properties else f"[{name}]"
        schema, position = child, step.end()
    return parsed


def _unquoted(text: str) -> str | None:
    if any(escape not in _ESCAPES for escape in re.findall(r"\\(.)", text)):
        return None
    return re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], text)


_TYPES_NOT_SHOWN = ("object", "array")
_MAX_MESSAGE_SIZE = 5 * 1024


class ResultTypeError(CompileError):
    """An expression whose result has the wrong type; the message names the expected type."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule, its program or compile error, and the same for its messageExpression."""

    rule: dict[str, Any]
    program: Program | None = None
    error: str = ""
    message: Program | None = None
    message_error: str = ""
    field: str = ""

    @property
    def uses_old(self) -> bool:
        return self.program is not None and "oldSelf" in self.program.names

    @property
    def optional_old(self) -> bool:
        return bool(self.rule.get("optionalOldSelf"))

    @property
    def shown(self) -> str:
        return (self.rule.get("message") or "").strip() or str(self.rule.get("rule") or "").strip()

    @property
    def default_message(self) -> str:
        return (self.rule.get("message") or "").strip() or f"failed rule: {self.shown}"


class RulePrograms:
    """The rules of one schema node, compiled by `compile_steps`. `untyped`: expressions cannot use the node's type."""

    def __init__(self, rules: list[dict[str, Any]], schema: Schema, *, resource: bool) -> None:
        self._schema, self._resource = schema, resource
        self._convert = converter(schema, resource=resource)
        self._environments: dict[bool, Environment] = {}
        self.untyped = not (schema.type or schema.int_or_string)
        self.rules: list[CompiledRule] = []
        self._sources = [] if self.untyped else rules

    def compile_steps(self) -> Iterator[None]:
        """Compile one rule per step: it takes milliseconds, and a definition may have thousands."""
        for rule in self._sources:
            self.rules.append(self._compile(rule))
            yield
        self._sources = []
        self._environments.clear()

    def _compile(self, rule: dict[str, Any]) -> CompiledRule:
        text = str(rule.get("rule") or "")
        if not text.strip():
            return CompiledRule(rule)
        try:
            program = self._program(text, rule, "BOOL", "cel expression must evaluate to a bool")
        except CompileError as error:
            return CompiledRule(rule, error=str(error))
        field = parse_field_path(rule["fieldPath"], self._schema) if rule.get("fieldPath") else None
        message = str(rule.get("messageExpression") or "")
        compiled = CompiledRule(rule, program, field=field or "")
        if not message:
            return compiled
        try:
            message_program = self._program(message, rule, "STRING", "messageExpression must evaluate to a string")
        except CompileError as error:
            prefix = "" if isinstance(error, ResultTypeError) else "messageExpression "
            return CompiledRule(rule, program, field=field or "", message_error=f"{prefix}{error}")
        return CompiledRule(rule, program, message=message_program, field=field or "")

    def _program(self, text: str, rule: dict[str, Any], result: str, type_error: str) -> Program:
        program = self._environment(bool(rule.get("optionalOldSelf"))).compile(text)
        if program.result != result:
            raise ResultTypeError(type_error)
        return program

    def _environment(self, optional: bool) -> Environment:
        if optional not in self._environments:
            self._environments[optional] = Environment(
                {
                    "self": Variable(self._schema, resource=self._resource),
                    "oldSelf": Variable(self._schema, resource=self._resource, optional=optional),
                }
            )
        return self._environments[optional]

    def evaluate(self, value: Any, old: Any, path: str, correlation: CorrelatedValue) -> list[FieldError]:
        """Errors of a value; `old` is MISSING if there is no old value."""
        errors: list[FieldError] = []
        absent = old is MISSING or old is None
        values = {"self": value} if absent else {"self": value, "oldSelf": old}
        activations: dict[bool, Any] = {}
        for rule in self.rules:
            if rule.program is None:
                if rule.error:
                    errors.append(invalid(path, self._schema.type or "", f"rule compile error: {rule.error}"))
                continue
            if absent and rule.uses_old and not rule.optional_old:
                continue
            if rule.optional_old not in activations:
                activations[rule.optional_old] = self._activation(value, old, absent, rule.optional_old)
            try:
                rule.program.check_growth(values, self._schema)
                if rule.program.holds(activations[rule.optional_old]):
                    continue
            except EvaluationError as error:
                errors.append(self._failure(rule, error, path))
                if isinstance(error, CostExceeded):
                    break
                continue
            if rule.uses_old or not correlation.unchanged():
                errors.append(self._refusal(rule, values, path, activations[rule.optional_old]))
        return errors

    def _activation(self, value: Any, old: Any, absent: bool, optional: bool) -> Any:
        convert = self._convert
        value = replace_nul(value)
        names = {"self": convert(value) if convert else value}
        if not absent:
            old = replace_nul(old)
            old_value = convert(old) if convert else old
            names["oldSelf"] = {"value": old_value} if optional else old_value
        elif optional:
            names["oldSelf"] = {}
        return KUBERNETES.runtime.Activation(names)

    def _failure(self, rule: CompiledRule, error: EvaluationError, path: str) -> FieldError:
        if isinstance(error, NoSuchOverload):
            detail = (
                f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: {rule.shown}"
            )
        elif isinstance(error, CostExceeded):
            detail = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.shown}"
        else:
            detail = f"{error} evaluating rule: {rule.shown}"
        return invalid(path, self._schema.type or "", detail)

    def _refusal(self, rule: CompiledRule, values: dict[str, Any], path: str, activation: Any) -> FieldError:
        where = f"{path}.{rule.field}" if path and rule.field else path or rule.field
        reason = str(rule.rule.get("reason") or "FieldValueInvalid")
        shown = OMITTED if self._schema.type in _TYPES_NOT_SHOWN else values["self"]
        detail = "" if reason == "FieldValueDuplicate" else self._message(rule, values, activation)
        return FieldError(reason, where, shown, detail)

    def _message(self, rule: CompiledRule, values: dict[str, Any], activation: Any) -> str:
        if rule.message is None:
            return rule.default_message
        try:
            rule.message.check_growth(values, self._schema)
            message = str(rule.message.run(activation)).strip()
        except EvaluationError:
            return rule.default_message
        fits = message and "\n" not in message and len(message.encode()) <= _MAX_MESSAGE_SIZE
        return message if fits else rule.default_message


def has_valid_fields(schema: Schema) -> bool:
    """Whether the rules of a schema node, not of its children, can be compiled."""
    return not any(True for rule in schema.rules for _ in _shape_errors(rule, schema, ""))


_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")

_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)

_SHOWN_FIELDS = ("Rule", "Message", "MessageExpression", "Reason", "FieldPath", "OptionalOldSelf")


def find_rule_errors(schema: Schema, path: str, prepared: Prepared) -> list[FieldError]:
    """Every error in the rules of a schema and its children, and rules whose estimated cost exceeds the budgets."""
    costs: list[tuple[int, str]] = []
    errors, _ = _errors(schema, _SchemaPosition(path, "", 1), prepared, costs)
    total = sum(rule_cost for rule_cost, _ in costs)
    if total > cost.SCHEMA_LIMIT:
        largest = sorted((entry for entry in costs if entry[0] >= cost.SCHEMA_LIMIT // 100), key=lambda entry: -entry[0])[:4]
        errors += [forbidden(place, _CONTRIBUTED) for _, place in largest]
        errors.append(forbidden(path, cost.describe_excess(_SCHEMA_COST, total, cost.SCHEMA_LIMIT)))
    return errors


_CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
_SCHEMA_COST = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"


class _SchemaPosition(NamedTuple):
    """A schema's path, the path within which old values are unknown, and the maximum number of occurrences in an object."""

    path: str
    uncorrelatable: str
    cardinality: int | None


def _errors(
    schema: Schema, place: _SchemaPosition, prepared: Prepared, costs: list[tuple[int, str]]
) -> tuple[list[FieldError], bool]:
    """The errors, and whether some are of the schema itself: then expressions of its parents are not validated."""
    errors: list[FieldError] = []
    broken = False
    for child, child_place in _child_schemas(schema, place):
        child_errors, child_broken = _errors(child, child_place, prepared, costs)
        errors += child_errors
        broken |= child_broken
    shape = [
        error for index, rule in enumerate(schema.rules) for error in _shape_errors(rule, schema, _rule_path(place.path, index))
    ]
    errors += shape
    broken |= bool(shape)
    if schema.rules and not broken:
        cardinality = sizes.max_cardinality(schema) if place.cardinality is None else place.cardinality
        errors += _expression_errors(prepared[id(schema)](), place, cardinality, costs)
    return errors, broken


def _child_schemas(schema: Schema, place: _SchemaPosition) -> Iterator[tuple[Schema, _SchemaPosition]]:
    """Every child schema and its position."""
    path, uncorrelatable, cardinality = place
    children = sizes.max_children(schema)
    count = None if cardinality is None or children is None else cost.multiply(cardinality, children)
    if schema.additional is not None:
        yield schema.additional, _SchemaPosition(f"{path}.additionalProperties", uncorrelatable, count)
    for name, child in schema.properties.items():
        yield child, _SchemaPosition(f"{path}.properties[{name}]", uncorrelatable, count)
    if schema.items is not None:
        yield schema.items, _SchemaPosition(f"{path}.items", uncorrelatable if schema.list_type == "map" else path, count)


def _rule_path(path: str, index: int) -> str:
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
    message_expression = str(rule.get("messageExpression") or "")
    if message_expression and not message_expression.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    field = str(rule.get("fieldPath") or "")
    if field and not field.strip():
        yield invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if "\n" in field:
        yield invalid(f"{path}.fieldPath", field, "must not contain line breaks")
    if field and parse_field_path(field, schema) is None:
        yield invalid(f"{path}.fieldPath", field, "must be a valid path")


def _expression_errors(
    programs: RulePrograms, where: _SchemaPosition, cardinality: int, costs: list[tuple[int, str]]
) -> Iterator[FieldError]:
    path, uncorrelatable, _ = where
    if programs.untyped:
        yield FieldError("InternalError", f"{path}.x-kubernetes-validations", None, _NO_TYPE)
    for index, rule in enumerate(programs.rules):
        place = _rule_path(path, index)
        if rule.program is not None:
            estimated = cost.multiply(rule.program.cost.high, cardinality)
            costs.append((estimated, f"{place}.rule"))
            if estimated > cost.RULE_LIMIT:
                yield forbidden(f"{place}.rule", cost.describe_excess("estimated rule cost", estimated, cost.RULE_LIMIT))
        if rule.error:
            yield invalid(f"{place}.rule", _shown(rule), rule.error)
        if rule.message_error:
            yield invalid(f"{place}.messageExpression", _shown(rule), rule.message_error)
        elif rule.message is not None:
            estimated = rule.message.cost.high
            costs.append((estimated, f"{place}.messageExpression"))
            if estimated > cost.RULE_LIMIT:
                detail = cost.describe_excess("estimated messageExpression cost", estimated, cost.RULE_LIMIT)
                yield forbidden(f"{place}.messageExpression", detail)
        if rule.uses_old and uncorrelatable:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            yield invalid(f"{place}.rule", rule.rule["rule"], detail)
        elif not rule.uses_old and rule.rule.get("optionalOldSelf") is not None:
            yield invalid(f"{place}.optionalOldSelf", rule.rule["optionalOldSelf"], "may not be set if oldSelf is not used in rule")


def _shown(rule: CompiledRule) -> Rendered:
    """The rule as Go's JSON encoder prints it."""
    values = {name: rule.rule.get(name[0].lower() + name[1:]) for name in _SHOWN_FIELDS}
    for name in ("Rule", "Message", "MessageExpression", "FieldPath"):
        values[name] = values[name] or ""
    return Rendered(encode_json(values, sort_keys=False))
