"""Mutating and validating webhooks: which are called, in which order, and what becomes of their responses."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks import schemas
from sliceworks.base import clock
from sliceworks.base.errors import ApiError, BadRequest, InternalError, ServerTimeout
from sliceworks.schemas import builtins
from sliceworks.schemas.field_errors import quoted
from sliceworks.schemas.golang import json_kind
from sliceworks.schemas.model import Schema, build
from sliceworks.twin.apiserver.admission.match_criteria import MatchConditions, MatchCriteria, conditions_hold
from sliceworks.twin.apiserver.codec import TYPE_META, deep_copy
from sliceworks.twin.apiserver.patch.jsonpatch import json_patch
from sliceworks.twin.apiserver.webhook_client import CallError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.apiserver.admission.match_criteria import Target, WriteAttributes
    from sliceworks.twin.apiserver.webhook_client import WebhookClient

log = logging.getLogger("sliceworks.twin.apiserver")
Obj = dict[str, Any]
MUTATING = "admissionregistration.k8s.io/mutatingwebhookconfigurations"
VALIDATING = "admissionregistration.k8s.io/validatingwebhookconfigurations"
_REQUEST_SECONDS = 34.0
"""How long all webhooks of one request may take, as in kube-apiserver."""
_VERSIONS = {"v1": "admission.k8s.io/v1", "v1beta1": "admission.k8s.io/v1beta1"}
_TEXT = {"type": "string", "go": "o string"}
_RESPONSE = {
    "uid": _TEXT,
    "allowed": {"type": "boolean", "go": "o bool"},
    "status": {"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.Status", "go": "po v1.Status"},
    "patch": {"type": "string", "format": "byte", "go": "o []uint8"},
    "patchType": {"type": "string", "go": "po v1.PatchType"},
    "auditAnnotations": {"type": "object", "additionalProperties": {"type": "string"}, "go": "o map[string]string"},
    "warnings": {"type": "array", "items": {"type": "string"}, "go": "o []string"},
}


class Webhook:
    """One webhook of a configuration."""

    def __init__(self, configuration: str, spec: Mapping[str, Any]) -> None:
        from sliceworks.cel.admission import Scope

        self.name = str(spec["name"])
        self.id = (configuration, self.name)
        self.client_config: Obj = spec["clientConfig"]
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self.reinvocable = spec.get("reinvocationPolicy") == "IfNeeded"
        self.seconds = float(spec.get("timeoutSeconds") or 10)
        self.allows_dry_run = spec.get("sideEffects") in ("None", "NoneOnDryRun")
        self.review_version = next((version for version in spec["admissionReviewVersions"] if version in _VERSIONS), "")
        self.criteria = MatchCriteria(spec, list(spec.get("rules") or ()))
        conditions = list(spec.get("matchConditions") or ())
        self.conditions = MatchConditions(conditions, Scope(), spec.get("failurePolicy") or "Fail") if conditions else None

    def find_target(self, attributes: WriteAttributes) -> Target | None:
        target = self.criteria.find_target(attributes)
        return target if target is not None and conditions_hold(self.conditions, attributes, target) else None


def parse_configurations(configurations: Iterable[Mapping[str, Any]]) -> list[Webhook]:
    """All webhooks, in the order in which they are called."""
    by_name = sorted(configurations, key=lambda obj: str(obj["metadata"]["name"]))
    return [Webhook(obj["metadata"]["name"], spec) for obj in by_name for spec in obj.get("webhooks") or ()]


@dataclass(slots=True)
class Reinvocation:
    """What a second round calls: reinvocable webhooks or policies that ran before the object changed again."""

    ran: set[tuple[str, ...]] = field(default_factory=set)
    due: set[tuple[str, ...]] = field(default_factory=set)
    output: bytes = b""

    def require(self) -> None:
        self.due |= self.ran
        self.ran = set()

    def end_round(self, obj: Obj | None) -> None:
        """Remember the object after the first round."""
        self.output = orjson.dumps(obj)

    def start_again(self, obj: Obj | None) -> bool:
        """Whether a second round has anything to call, now that the object may have changed since the first."""
        if orjson.dumps(obj) != self.output:
            self.require()
        return bool(self.due)


class Deadline:
    """When the webhooks of one request must have answered."""

    def __init__(self) -> None:
        self._end = clock.loop_time() + clock.scale_real_seconds(_REQUEST_SECONDS)

    def seconds(self, limit: float) -> float:
        """The real seconds that a call may take; raises ServerTimeout if there are none left."""
        left = (self._end - clock.loop_time()) / clock.scale_real_seconds(1.0)
        if left <= 0:
            raise ServerTimeout("Timeout: request did not complete within requested timeout - context deadline exceeded")
        return min(left, limit)


class WebhookDispatcher:
    """Calls webhooks."""

    def __init__(self, client: WebhookClient) -> None:
        self._client = client
        self.mutating: list[Webhook] = []
        self.validating: list[Webhook] = []

    async def mutate(self, attributes: WriteAttributes, state: Reinvocation, deadline: Deadline, *, again: bool = False) -> bool:
        """Call mutating webhooks one after the other, or those that are due again; returns whether any changed the object."""
        any_changed = False
        for hook in self.mutating:
            target = hook.find_target(attributes)
            if target is None or (again and hook.id not in state.due):
                continue
            try:
                changed = await self._call_mutating(hook, attributes, target, deadline)
            except CallError as error:
                _on_failure(hook, error)
                changed = False
            if changed:
                any_changed = True
                state.require()
            if hook.reinvocable:
                state.ran.add(hook.id)
        return any_changed

    async def _call_mutating(self, hook: Webhook, attributes: WriteAttributes, target: Target, deadline: Deadline) -> bool:
        response = await self._call(hook, attributes, target, deadline, mutating=True)
        raw = response.get("patch")
        if not raw:
            return False
        try:
            operations = orjson.loads(base64.b64decode(raw, validate=True))
        except (orjson.JSONDecodeError, binascii.Error, ValueError) as error:
            raise CallError(f"received undecodable patch in webhook response: {error}") from error
        if not isinstance(operations, list):
            problem = f"json: cannot unmarshal {json_kind(operations)} into Go value of type jsonpatch.Patch"
            raise CallError(f"received undecodable patch in webhook response: {problem}")
        if not operations:
            return False
        obj = attributes.in_version(target)[0]
        if obj is None:
            problem = f"admission webhook {quoted(hook.name)} attempted to modify the object"
            raise _internal_error(f"{problem}, which is not supported for this operation")
        if response.get("patchType") != "JSONPatch" and hook.review_version == "v1":
            raise CallError(f"unsupported patch type {quoted(str(response.get('patchType')))}")
        patched = _patched(attributes, target, obj, operations)
        if patched == obj:
            return False
        attributes.set_object(attributes.from_version(patched, target))
        return True

    async def validate(self, attributes: WriteAttributes) -> None:
        """Call validating webhooks at the same time; raise the error of the first that rejects the write."""
        targets = [(hook, target) for hook in self.validating if (target := hook.find_target(attributes)) is not None]
        if not targets:
            return
        deadline = Deadline()
        calls = [self._call_validating(hook, attributes, target, deadline) for hook, target in targets]
        errors = [error for error in await asyncio.gather(*calls) if error is not None]
        if errors:
            raise errors[0]

    async def _call_validating(
        self, hook: Webhook, attributes: WriteAttributes, target: Target, deadline: Deadline
    ) -> ApiError | None:
        try:
            await self._call(hook, attributes, target, deadline, mutating=False)
        except CallError as error:
            try:
                _on_failure(hook, error)
            except ApiError as failure:
                return failure
        except ApiError as error:
            return error
        return None

    async def _call(self, hook: Webhook, attributes: WriteAttributes, target: Target, deadline: Deadline, *, mutating: bool) -> Obj:
        """The response of a webhook that allowed the write. Raises CallError, or the ApiError of a denial."""
        if attributes.call.dry_run and not hook.allows_dry_run:
            raise BadRequest(f"admission webhook {quoted(hook.name)} does not support dry run")
        uid = clock.uid()
        api_version = _VERSIONS[hook.review_version]
        review = {"kind": "AdmissionReview", "apiVersion": api_version, "request": attributes.review_request(target, uid)}
        try:
            answer = await self._client.post(hook.client_config, review, deadline.seconds(hook.seconds))
        except CallError as error:
            raise CallError(f"failed to call webhook: {error}") from error
        response = _decode_response(answer, uid, api_version, mutating=mutating)
        attributes.call.warnings += response.get("warnings") or ()
        if not response.get("allowed"):
            raise _denial(hook.name, response.get("status") or {})
        return response


def _on_failure(hook: Webhook, error: CallError) -> None:
    """Log a failed call, and raise InternalError unless the webhook's failures are ignored."""
    message = f"failed calling webhook {quoted(hook.name)}: {error}"
    log.warning("%s", message)
    if not hook.ignores_failures:
        raise _internal_error(message)


def _internal_error(message: str) -> InternalError:
    return InternalError(f"Internal error occurred: {message}", details={"causes": [{"message": message}]})


@cache
def _response_schema() -> Schema:
    def resolve(name: str) -> Schema:
        if name == "AdmissionResponse":
            return build({"type": "object", "properties": _RESPONSE}, builtins.builtin_scheme().component, name)
        return builtins.builtin_scheme().component(name)

    fields = {"kind": _TEXT, "apiVersion": _TEXT, "response": {"$ref": "AdmissionResponse", "go": "po v1.AdmissionResponse"}}
    return build({"type": "object", "properties": fields}, resolve, "AdmissionReview")


def _decode_response(answer: Obj, uid: str, api_version: str, *, mutating: bool) -> Obj:
    try:
        review = schemas.decode(_response_schema(), answer, [])
    except schemas.TypeMismatch as error:
        raise CallError(f"failed to call webhook: {error}") from error
    response: Obj | None = review.get("response")
    if response is None:
        raise CallError("received invalid webhook response: webhook response was absent")
    if api_version == _VERSIONS["v1"]:
        problem = _response_problem(review, response, uid, mutating=mutating)
        if problem:
            raise CallError(f"received invalid webhook response: {problem}")
    return response


def _response_problem(review: Obj, response: Obj, uid: str, *, mutating: bool) -> str:
    if response.get("uid", "") != uid:
        return f"expected response.uid={quoted(uid)}, got {quoted(response.get('uid', ''))}"
    kind, (group, _, version) = review.get("kind", ""), str(review.get("apiVersion", "")).rpartition("/")
    if (group, version, kind) != ("admission.k8s.io", "v1", "AdmissionReview"):
        return f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating:
        return f"validating webhook may not return response.{'patch' if patch else 'patchType'}" if patch or patch_type else ""
    if patch and patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not patch and patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if patch_type == "" else ""


def _denial(name: str, status: Obj) -> ApiError:
    denied = f"admission webhook {quoted(name)} denied the request"
    explanation = status.get("message") or status.get("reason")
    code = int(status.get("code") or 0)
    return ApiError(
        f"{denied}: {explanation}" if explanation else f"{denied} without explanation",
        code=max(code, 400),
        reason=status.get("reason") or "",
        details=status.get("details"),
    )


def _patched(attributes: WriteAttributes, target: Target, obj: Obj, operations: Any) -> Obj:
    """The object after a JSON patch, decoded and with defaults. Raises InternalError for a patch that does not apply."""
    patched = deep_copy(obj)
    for operation in operations:
        try:
            patched = json_patch(patched, [operation])
        except ApiError as error:
            raise _internal_error(patch_problem(patched, operation)) from error
    return decode_patched(attributes, target, patched)


def patch_problem(obj: Any, operation: Any) -> str:
    """Why an operation of a JSON patch does not apply, in the words of Go's library."""
    if not isinstance(operation, dict):
        return "Unexpected kind: unknown"
    name, path = operation.get("op"), operation.get("path")
    if name == "test":
        return f"testing value {path} failed: test failed"
    if name not in ("add", "remove", "replace", "move", "copy"):
        return f"Unexpected kind: {name or 'unknown'}"
    parent, _, key = str(path).rpartition("/")
    if name == "remove":
        for part in parent.split("/")[1:]:
            obj = obj.get(part) if isinstance(obj, dict) else None
        if isinstance(obj, dict):
            return f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
    return f'{name} operation does not apply: doc is missing path: "{path}": missing value'


def decode_patched(attributes: WriteAttributes, target: Target, patched: Any, *, strict: bool = False) -> Obj:
    """A patched object, decoded and with defaults; `strict`: a built-in kind without unknown fields. Raises ApiError."""
    group, version, kind = target.kind
    api_version = f"{group}/{version}" if group else version
    if not isinstance(patched, dict):
        raise _internal_error(f"json: cannot unmarshal {json_kind(patched)} into Go value of type {TYPE_META}")
    if (patched.get("kind"), patched.get("apiVersion")) != (kind, api_version):
        actual = f"{str(patched.get('apiVersion')).rpartition('/')[2]}.{patched.get('kind')}"
        package = (group or "core").partition(".")[0]
        raise ApiError(f"converting ({actual}) to ({package}.{kind}): unknown conversion", code=500, reason="")
    if target.resource.custom and kind == target.resource.kind:
        schema = target.resource.versions[target.version].schema()
        try:
            schemas.prune(schema, patched, [], nulls=False)  # as kube-apiserver, which removes nulls only from requests
        except schemas.TypeMismatch as error:
            raise _internal_error(str(error)) from error
    else:
        schema = builtins.builtin_scheme().schema(group, version, kind)
        unknown: list[str] = []
        try:
            patched = schemas.decode(schema, patched, unknown)
        except schemas.TypeMismatch as error:
            raise _internal_error(str(error)) from error
        if unknown and strict:
            raise _internal_error("strict decoding error: " + ", ".join(f"unknown field {quoted(path)}" for path in unknown))
    schemas.set_defaults(schema, patched)
    attributes.call.resource.strategy.add_defaults(patched)
    return dict(patched)
