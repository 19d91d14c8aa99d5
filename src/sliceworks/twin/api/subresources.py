"""What lies below an object and is not the object: scale, binding, eviction, tokens, finalize and logs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.base.errors import BadRequest, Conflict, NotFound, TooManyRequests
from sliceworks.kube.transport import Response
from sliceworks.schemas.field_errors import refusal, required
from sliceworks.twin.api import media, objects, pod_parts, scaling
from sliceworks.twin.api.bodies import read_kind
from sliceworks.twin.api.calls import check_write_options
from sliceworks.twin.api.deletes import options_from
from sliceworks.twin.api.refusals import not_found
from sliceworks.twin.auth.token_requests import token_request

if TYPE_CHECKING:
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core
    from sliceworks.twin.store.entries import Entry

Obj = dict[str, Any]
_TEXT = {"content-type": "text/plain"}
_BINDING = "io.k8s.api.core.v1.Binding"


class Subresources:
    """Answers requests below an object, by the name of the subresource."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def handle(self, call: Call) -> Response:
        name = call.target.subresource
        if name == "status" or name in pod_parts.PARTS:
            return await self._part(call)
        special = getattr(self, f"_{name}", None)
        if special is None:
            raise _no_stream(call, objects.served(call.resource, call.version, self._object(call)))
        response: Response = await special(call)
        return response

    async def _part(self, call: Call) -> Response:
        """Status and its likes: the whole object goes in and out, and only one part of it changes."""
        writer = self._core.writer
        if call.target.verb == "get":
            return await self._core.reader.get(call)
        return await (writer.update(call) if call.target.verb == "update" else writer.patch(call))

    def _object(self, call: Call) -> Entry:
        entry = self._core.store.get(call.resource.stored_as, call.namespace, call.name)
        if entry is None:
            raise not_found(call)
        return entry

    async def _finalize(self, call: Call) -> Response:
        """A namespace's own finalizers, which only this path may change."""
        check_write_options(call, "UpdateOptions")
        body, twice = objects.read(call)
        obj = objects.decode(call, body, twice)

        def keep(new: Obj, old: Obj) -> None:
            new["status"] = old.get("status")

        entry = self._core.writer.replace(call, obj, self._object(call), keep=keep)
        await self._core.store.settled()
        return self._core.reader.answer(call, 200, entry)

    async def _scale(self, call: Call) -> Response:
        return await scaling.handle(self._core, call)

    async def bind(self, call: Call) -> Response:
        """A binding that was posted by itself: its name is the pod's."""
        name = str(read_kind(call, _BINDING, "Binding").get("metadata", {}).get("name") or "")
        found = self._core.registry.find("", "v1", "pods")
        assert found is not None
        target = replace(call.target, resource="pods", name=name, subresource="binding")
        return await self._binding(replace(call, resource=found[0], version=found[1], target=target))

    async def _binding(self, call: Call) -> Response:
        """Put a pod on a node."""
        binding = read_kind(call, _BINDING, "Binding")
        node = (binding.get("target") or {}).get("name")
        if not node:
            raise refusal("", "Binding", call.name, [required("target.name")])
        entry = self._object(call)
        pod = objects.served(call.resource, call.version, entry)
        if pod["metadata"].get("deletionTimestamp"):
            raise _not_bound(call, f"pod {call.name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise _not_bound(call, f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        if pod["spec"].get("schedulingGates"):
            raise _not_bound(call, f"pod {call.name} has non-empty .spec.schedulingGates")
        pod["spec"]["nodeName"] = node
        annotations = {**(pod["metadata"].get("annotations") or {}), **(binding.get("metadata", {}).get("annotations") or {})}
        if annotations:
            pod["metadata"]["annotations"] = annotations
        _set_condition(pod, {"type": "PodScheduled", "status": "True", "lastProbeTime": None})
        pod["status"].pop("nominatedNodeName", None)
        self._core.put(call.resource, call.namespace, call.name, pod, call.dry_run)
        await self._core.store.settled()
        return media.json_response(201, orjson.dumps(_success(201)), call.form)

    async def _eviction(self, call: Call) -> Response:
        """Delete a pod if its disruption budget allows."""
        eviction = read_kind(call, "io.k8s.api.policy.v1.Eviction", "Eviction")
        options = options_from(eviction.get("deleteOptions") or {})
        entry = self._object(call)
        pod = objects.served(call.resource, call.version, entry)
        if not _unprotected(pod):
            self._spend_budget(call, pod)
        self._core.deleter.remove(_deleting(call), entry, options)
        await self._core.store.settled()
        return media.json_response(201, orjson.dumps(_success(201)), call.form)

    def _spend_budget(self, call: Call, pod: Obj) -> None:
        from sliceworks.kube.selectors import from_label_selector

        budgets = [
            budget
            for budget in self._core.view.list("policy/poddisruptionbudgets", call.namespace)
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
        if not is_true(pod, "Ready") and _spares_unready(budget["spec"], status):
            return
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise _over_budget(f"The disruption budget {name} is still being processed by the server.", retryAfterSeconds=10)
        if status.get("disruptionsAllowed", 0) <= 0:
            needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            raise _over_budget(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
        budget["status"] = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1}
        budget["status"].setdefault("disruptedPods", {})[call.name] = clock.timestamp()
        resource = self._core.registry.by_key("policy/poddisruptionbudgets")
        assert resource is not None
        self._core.put(resource, call.namespace, name, budget, call.dry_run)

    async def _token(self, call: Call) -> Response:
        body = read_kind(call, "io.k8s.api.authentication.v1.TokenRequest", "TokenRequest")
        answer = token_request(body, call.namespace, call.name, self._core.issuer, self._core.view.get)
        return media.json_response(201, orjson.dumps(answer), call.form)

    async def _log(self, call: Call) -> Response:
        entry = self._object(call)
        pod = objects.served(call.resource, call.version, entry)
        container = _container(call, pod)
        if not pod["spec"].get("nodeName"):
            return Response(204, _TEXT)
        if self._core.logs is None:
            raise NotFound(f"the twin keeps no log of container {container} in pod {call.name}", details={})
        return self._core.logs(call, pod, container)


def _no_stream(call: Call, obj: Obj) -> BadRequest:
    """Nothing here can be attached to; the real server says so of a pod that has no node."""
    streams = call.resource.key == "/pods" and call.target.subresource in {"exec", "attach", "portforward"}
    if streams and not obj["spec"].get("nodeName"):
        return BadRequest(f"pod {call.name} does not have a host assigned")
    return BadRequest(f"{call.resource.plural}/{call.target.subresource} is not supported here")


def _over_budget(why: str, **extra: int) -> TooManyRequests:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", details={"causes": causes, **extra})


def _not_bound(call: Call, why: str) -> Conflict:
    details = {"name": call.name, "kind": "pods/binding"}
    return Conflict(f'Operation cannot be fulfilled on pods/binding "{call.name}": {why}', details=details)


def _container(call: Call, pod: Obj) -> str:
    spec = pod["spec"]
    known = [item["name"] for field in ("containers", "initContainers", "ephemeralContainers") for item in spec.get(field) or ()]
    asked = call.param("container")
    if not asked:
        names = [item["name"] for item in spec.get("containers") or ()]
        if len(known) == 1:
            return str(names[0])
        default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
        if default in known:
            return str(default)
        inits = [item["name"] for item in spec.get("initContainers") or ()]
        text = f"a container name must be specified for pod {call.name}, choose one of: [{' '.join(names)}]"
        raise BadRequest(text + (f" or one of the init containers: [{' '.join(inits)}]" if inits else ""))
    if asked not in known:
        raise BadRequest(f"container {asked} is not valid for pod {call.name}")
    return asked


def _unprotected(pod: Obj) -> bool:
    status = pod.get("status") or {}
    return status.get("phase") in {"Succeeded", "Failed", "Pending"} or bool(pod["metadata"].get("deletionTimestamp"))


def _spares_unready(spec: Obj, status: Obj) -> bool:
    """Whether a pod that is not ready may go and cost the budget nothing."""
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def _deleting(call: Call) -> Call:
    return replace(call, target=replace(call.target, subresource="", verb="delete"))


def _set_condition(obj: Obj, condition: Obj) -> None:
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    condition["lastTransitionTime"] = clock.timestamp()
    for index, found in enumerate(conditions):
        if found["type"] == condition["type"]:
            conditions[index] = condition
            return
    conditions.append(condition)


def _success(code: int) -> Obj:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
