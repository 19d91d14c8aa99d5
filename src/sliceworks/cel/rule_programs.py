"""The rules of one node of a schema, compiled, and what they say of a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.cel.dialect import KUBERNETES
from sliceworks.cel.environment import CompileError, Environment, EvaluationError, Program, TooCostlyError, Variable
from sliceworks.cel.field_paths import field_path
from sliceworks.cel.values import converter, without_nul
from sliceworks.cel.wording import COST_EXCEEDED, NO_OVERLOAD
from sliceworks.schemas.field_errors import OMITTED, FieldError, invalid
from sliceworks.schemas.structural import MISSING

if TYPE_CHECKING:
    from sliceworks.cel.correlation import Correlation
    from sliceworks.schemas.structural import Schema

_NOT_SHOWN = ("object", "array")
_LONGEST_MESSAGE = 5 * 1024


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule as written, its program or why it has none, and the same for the expression of its message."""

    rule: dict[str, Any]
    program: Program | None = None
    error: str = ""
    costly: bool = False
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
    """The compiled rules of one node. `untyped` says that the node has no type that expressions could use."""

    def __init__(self, rules: list[dict[str, Any]], schema: Schema, *, resource: bool) -> None:
        self._schema, self._resource = schema, resource
        self._convert = converter(schema, resource=resource)
        self._environments: dict[bool, Environment] = {}
        self.untyped = not (schema.type or schema.int_or_string)
        self.rules = [] if self.untyped else [self._compile(rule) for rule in rules]
        self._environments.clear()

    def _compile(self, rule: dict[str, Any]) -> CompiledRule:
        text = str(rule.get("rule") or "")
        if not text.strip():
            return CompiledRule(rule)
        try:
            program = self._program(text, rule, "BOOL", "cel expression must evaluate to a bool")
        except CompileError as error:
            return CompiledRule(rule, error=str(error), costly=isinstance(error, TooCostlyError))
        field = field_path(rule["fieldPath"], self._schema) if rule.get("fieldPath") else None
        message = str(rule.get("messageExpression") or "")
        compiled = CompiledRule(rule, program, field=field or "")
        if not message:
            return compiled
        try:
            words = self._program(message, rule, "STRING", "messageExpression must evaluate to a string")
        except CompileError as error:
            text = str(error)
            prefix = "" if text.startswith("messageExpression") or isinstance(error, TooCostlyError) else "messageExpression "
            return CompiledRule(rule, program, field=field or "", message_error=prefix + text)
        return CompiledRule(rule, program, message=words, field=field or "")

    def _program(self, text: str, rule: dict[str, Any], wanted: str, refusal: str) -> Program:
        program = self._environment(bool(rule.get("optionalOldSelf"))).compile(text)
        if program.result != wanted:
            raise CompileError(refusal)
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

    def evaluate(self, value: Any, old: Any, path: str, correlation: Correlation) -> list[FieldError]:
        """What the rules say of a value; `old` is MISSING where there is nothing to compare with."""
        errors: list[FieldError] = []
        absent = old is MISSING or old is None
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
                if rule.program.holds(activations[rule.optional_old]):
                    continue
            except EvaluationError as error:
                errors.append(self._failure(rule, str(error), path))
                if str(error).startswith(COST_EXCEEDED):
                    break
                continue
            if rule.uses_old or not correlation.unchanged():
                errors.append(self._refusal(rule, value, path, activations[rule.optional_old]))
        return errors

    def _activation(self, value: Any, old: Any, absent: bool, optional: bool) -> Any:
        convert = self._convert
        value = without_nul(value)
        names = {"self": convert(value) if convert else value}
        if not absent:
            old = without_nul(old)
            before = convert(old) if convert else old
            names["oldSelf"] = {"value": before} if optional else before
        elif optional:
            names["oldSelf"] = {}
        return KUBERNETES.runtime.Activation(names)

    def _failure(self, rule: CompiledRule, error: str, path: str) -> FieldError:
        if error.startswith(NO_OVERLOAD):
            detail = (
                f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: {rule.shown}"
            )
        elif error.startswith(COST_EXCEEDED):
            detail = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.shown}"
        else:
            detail = f"{error} evaluating rule: {rule.shown}"
        return invalid(path, self._schema.type or "", detail)

    def _refusal(self, rule: CompiledRule, value: Any, path: str, activation: Any) -> FieldError:
        where = f"{path}.{rule.field}" if path and rule.field else path or rule.field
        reason = str(rule.rule.get("reason") or "FieldValueInvalid")
        shown = OMITTED if self._schema.type in _NOT_SHOWN else value
        detail = "" if reason == "FieldValueDuplicate" else _message(rule, activation)
        return FieldError(reason, where, shown, detail)


def _message(rule: CompiledRule, activation: Any) -> str:
    if rule.message is None:
        return rule.default_message
    try:
        words = str(rule.message.run(activation)).strip()
    except EvaluationError:
        return rule.default_message
    fits = words and "\n" not in words and len(words.encode()) <= _LONGEST_MESSAGE
    return words if fits else rule.default_message
