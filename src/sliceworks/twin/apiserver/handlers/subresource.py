"""Subresources: binding, eviction, token, finalize, scale, log; exec and its like go to `connect`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true, set_condition
from sliceworks.base.errors import BadRequest, Conflict, NotFound, TooManyRequests
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.auth.rbac import aggregate_errors
from sliceworks.twin.apiserver.auth.service_account_token import token_request
from sliceworks.twin.apiserver.handlers import scale
from sliceworks.twin.apiserver.handlers.delete import check_preconditions, options_from
from sliceworks.twin.apiserver.handlers.response import object_response
from sliceworks.twin.apiserver.handlers.write import compute
from sliceworks.twin.apiserver.request_info import check_write_options, conflict, container_name, not_found
from sliceworks.twin.apiserver.validation.error_list import ErrorList

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.entry import Entry

Obj = dict[str, Any]
_TEXT = {"content-type": "text/plain"}
_BINDING = "io.k8s.api.core.v1.Binding"


class SubresourceHandler:
    """Handles requests to subresources, by name."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def handle(self, call: Call) -> Response:
        name = call.target.subresource
        if name == "status" or name in call.resource.strategy.parts:
            return await self._handle_part(call)
        handler = getattr(self, f"_{name}", None)
        if handler is None:
            return await self._connect(call)
        response: Response = await handler(call)
        return response

    async def _handle_part(self, call: Call) -> Response:
        """Status and similar subresources: they take and return the whole object, and change one part of it."""
        writer = self._server.writer
        if call.target.verb == "get":
            return await self._server.reader.get(call)
        return await (writer.update(call) if call.target.verb == "update" else writer.patch(call))

    def _entry(self, call: Call, name: str = "") -> Entry:
        entry = self._server.store.get(call.resource.storage_key, call.namespace, name or call.name)
        if entry is None:
            raise not_found(call, name)
        return entry

    async def _connect(self, call: Call) -> Response:
        from sliceworks.twin.apiserver.handlers import connect

        name = connect.object_name(call.name) if call.target.subresource == "proxy" else call.name
        obj = codec.to_served(call.resource, call.version, self._entry(call, name))
        await self._server.admit_body(call, "CONNECT", connect.connect_options(call))
        return await connect.handle(self._server, call, obj)

    async def _finalize(self, call: Call) -> Response:
        """Change `spec.finalizers` of a namespace, which only this subresource can."""
        check_write_options(call, "UpdateOptions")
        obj = await compute(call, lambda: codec.decode(call, *codec.read_body(call)))

        def keep_status(new: Obj, old: Obj) -> None:
            new["status"] = old.get("status")

        entry = await self._server.writer.update_object(call, obj, self._entry(call), reset=keep_status)
        await self._server.store.wait_durable()
        return await object_response(call, 200, entry)

    async def _scale(self, call: Call) -> Response:
        return await scale.handle(self._server, call)

    async def bind(self, call: Call) -> Response:
        """Handle a Binding posted to /bindings: it has the name of the pod."""
        name = str((await _read_body(call, _BINDING, "Binding")).get("metadata", {}).get("name") or "")
        pods = self._server.registry.find("", "v1", "pods")
        assert pods is not None
        target = replace(call.target, resource="pods", name=name, subresource="binding")
        return await self._binding(replace(call, resource=pods[0], version=pods[1], target=target))

    async def _binding(self, call: Call) -> Response:
        """Assign a pod to a node."""
        binding = await _read_body(call, _BINDING, "Binding")
        _check_name(call, binding, "Binding")
        _check_binding(binding)
        await self._server.admit_body(call, "CREATE", binding)
        pod = codec.to_served(call.resource, call.version, self._entry(call))
        _check_preconditions(call, binding, pod)
        if pod["metadata"].get("deletionTimestamp"):
            raise _not_bound(call, f"pod {call.name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise _not_bound(call, f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        if pod["spec"].get("schedulingGates"):
            raise _not_bound(call, f"pod {call.name} has non-empty .spec.schedulingGates")
        pod["spec"]["nodeName"] = binding["target"]["name"]
        for field in ("annotations", "labels"):
            if values := binding["metadata"].get(field):
                pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), **values}
        set_condition(
            pod.setdefault("status", {}).setdefault("conditions", []),
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None},
        )
        pod["status"].pop("nominatedNodeName", None)
        self._server.put(call.resource, call.namespace, call.name, pod, call.dry_run)
        await self._server.store.wait_durable()
        return codec.json_response(201, orjson.dumps(_success(201)), call.form)

    async def _eviction(self, call: Call) -> Response:
        """Delete a pod if its disruption budget allows."""
        eviction = await _read_body(call, "io.k8s.api.policy.v1.Eviction", "Eviction")
        _check_name(call, eviction, "Eviction")
        raw_options = eviction.get("deleteOptions") or {}
        options = options_from(raw_options)
        if raw_options.get("dryRun"):
            call.params.setdefault("dryRun", raw_options["dryRun"])
        await self._server.admit_body(call, "CREATE", eviction)
        entry = self._entry(call)
        pod = codec.to_served(call.resource, call.version, entry)
        check_preconditions(call, pod["metadata"], options)
        if not _can_ignore_budget(pod):
            self._check_budget(call, pod)
        if not call.dry_run:
            entry = self._add_disruption_target(call, pod)
        await self._server.deleter.remove(_delete_call(call), entry, replace(options, version=None))
        await self._server.store.wait_durable()
        return codec.json_response(201, orjson.dumps(_success(201)), call.form)

    def _add_disruption_target(self, call: Call, pod: Obj) -> Entry:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": None,
        }
        set_condition(pod.setdefault("status", {}).setdefault("conditions", []), condition)
        return self._server.put(call.resource, call.namespace, call.name, pod, dry_run=False)

    def _check_budget(self, call: Call, pod: Obj) -> None:
        """Decrement the allowed disruptions of the pod's budget; raise TooManyRequests if there are none."""
        from sliceworks.kube.selectors import from_label_selector

        budgets = [
            budget
            for budget in self._server.view.list("policy/poddisruptionbudgets", call.namespace)
            if budget.get("spec", {}).get("selector") is not None
            and from_label_selector(budget["spec"]["selector"]).matches(pod["metadata"].get("labels"))
        ]
        if not budgets:
            return
        if len(budgets) > 1:
            raise Conflict(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                code=500, reason="InternalError",
            )  # fmt: skip
        budget = budgets[0]
        name, status = budget["metadata"]["name"], budget.get("status") or {}
        if not is_condition_true(pod, "Ready") and _can_evict_unready(budget["spec"], status):
            return
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise _over_budget(f"The disruption budget {name} is still being processed by the server.", retryAfterSeconds=10)
        if status.get("disruptionsAllowed", 0) <= 0:
            needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            raise _over_budget(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
        budget["status"] = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1}
        budget["status"].setdefault("disruptedPods", {})[call.name] = clock.timestamp()
        resource = self._server.registry.by_key("policy/poddisruptionbudgets")
        assert resource is not None
        self._server.put(resource, call.namespace, name, budget, call.dry_run)

    async def _token(self, call: Call) -> Response:
        body = await _read_body(call, "io.k8s.api.authentication.v1.TokenRequest", "TokenRequest")
        await self._server.admit_body(call, "CREATE", body)
        token = token_request(body, call.namespace, call.name, self._server.issuer, self._server.view.get)
        return codec.json_response(201, orjson.dumps(token), call.form)

    async def _log(self, call: Call) -> Response:
        entry = self._entry(call)
        pod = codec.to_served(call.resource, call.version, entry)
        container = container_name(call, pod)
        if not pod["spec"].get("nodeName"):
            return Response(204, _TEXT)
        if self._server.kubelet is None:
            raise NotFound(f"no log of container {container} in pod {call.name}: the twin simulates its containers", details={})
        response = self._server.kubelet.logs(call, pod, container)
        if "upgrade" not in call.request.headers:
            return response
        from sliceworks.twin.apiserver.streaming import websocket

        is_websocket = websocket.is_websocket_request(call.request.headers)
        return websocket.stream_over_websocket(call.request.headers, response) if is_websocket else response


async def _read_body(call: Call, component: str, kind: str) -> Obj:
    return await compute(call, partial(codec.read_body_of_kind, call, component, kind))


def _check_name(call: Call, body: Obj, kind: str) -> None:
    if (body.get("metadata") or {}).get("name") != call.name:
        raise BadRequest(f"name in URL does not match name in {kind} object")


def _check_binding(binding: Obj) -> None:
    target, errors = binding.get("target") or {}, ErrorList()
    if target.get("kind"):
        errors.check_supported(target, "target", "kind", ("Node", "<empty>"))
    errors.check_required(target, "target", "name")
    if errors:
        raise BadRequest(aggregate_errors(map(str, errors)))


def _check_preconditions(call: Call, binding: Obj, pod: Obj) -> None:
    """Compare the UID and resourceVersion of a Binding, if it has them, with those of the pod."""
    for field, noun in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        expected, actual = binding["metadata"].get(field), pod["metadata"].get(field)
        if expected and expected != actual:
            key = f"/registry/pods/{call.namespace}/{call.name}"
            problem = f"Precondition failed: {noun} in precondition: {expected}, {noun} in object meta: {actual}"
            reason = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {problem}"
            raise conflict(call, call.name, reason)


def _over_budget(message: str, **extra: int) -> TooManyRequests:
    causes = [{"reason": "DisruptionBudget", "message": message}]
    return TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", details={"causes": causes, **extra})


def _not_bound(call: Call, reason: str) -> Conflict:
    details = {"name": call.name, "kind": "pods/binding"}
    return Conflict(f'Operation cannot be fulfilled on pods/binding "{call.name}": {reason}', details=details)


def _can_ignore_budget(pod: Obj) -> bool:
    status = pod.get("status") or {}
    return status.get("phase") in {"Succeeded", "Failed", "Pending"} or bool(pod["metadata"].get("deletionTimestamp"))


def _can_evict_unready(spec: Obj, status: Obj) -> bool:
    """Whether evicting a pod that is not ready does not count as a disruption."""
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def _delete_call(call: Call) -> Call:
    return replace(call, target=replace(call.target, subresource="", verb="delete"))


def _success(code: int) -> Obj:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
