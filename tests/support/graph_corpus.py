"""Runs the corpus of graph definitions on a cluster, with any controller that serves them, and returns the outcome of each.

A case has a `schema` and `resources`, as a ResourceGraphDefinition does. A case that is not `refused` may have an `instance` (its
spec), objects that exist `before`, statuses for its children (`answers`), a `change` of the instance's spec, and the state in which
it `ends`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import yaml

from sliceworks.graph import definition_parser
from sliceworks.graph.builder import build_graph as compile_graph
from sliceworks.graph.kinds import BuiltinKinds
from sliceworks.graph.model import DefinitionError
from sliceworks.twin.apiserver.registry import crd_strategy
from sliceworks.twin.apiserver.validation.crd import definition_errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator

Object = dict[str, Any]
CORPUS = Path(__file__).parent.parent / "contract" / "graphs" / "corpus"
DEFINITIONS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LOOKS, PAUSE = 300, 0.2
_LONG = 10  # consecutive polls without a change
_HASH = re.compile(r"(applyset-|sha256:)[\w-]{43}")
_CHILDREN = {
    "": ("configmaps", "services", "serviceaccounts", "pods", "namespaces", "secrets", "resourcequotas"),
    "apps": ("deployments", "daemonsets", "statefulsets"),
    "batch": ("jobs",),
    "networking.k8s.io": ("ingresses", "networkpolicies"),
    "rbac.authorization.k8s.io": ("clusterroles", "clusterrolebindings", "roles", "rolebindings"),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
}
_VOLATILE = {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"}


class RequestFunction(Protocol):
    """Sends one request; returns its status and body."""

    def __call__(self, method: str, path: str, body: Any = None, /) -> Awaitable[tuple[int, Object]]: ...


@dataclass(frozen=True)
class Case:
    """One definition of the corpus."""

    name: str
    kind: str
    definition: Object
    refused: bool = False
    instance: Object | None = None
    before: list[Object] = field(default_factory=list)
    answers: list[Object] = field(default_factory=list)
    change: Object | None = None
    ends: str = "ACTIVE"

    @property
    def namespace(self) -> str:
        return f"corpus-{self.name}"[:63].rstrip("-")

    @property
    def cluster_wide(self) -> bool:
        return bool(self.definition["spec"]["schema"].get("scope") == "Cluster")


def cases(file: str) -> list[Case]:
    """The cases of a corpus file."""
    return [_case(raw) for raw in yaml.load((CORPUS / f"{file}.yaml").read_text(), yaml.CSafeLoader)]


def files() -> list[str]:
    return sorted(path.stem for path in CORPUS.glob("*.yaml"))


def _case(raw: Object) -> Case:
    name = raw["name"]
    kind = raw.get("kind") or "".join(part.capitalize() for part in name.split("-"))
    definition = {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": name},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, **raw["schema"]}, "resources": raw["resources"]},
    }
    rest = {key: raw[key] for key in ("refused", "instance", "before", "answers", "change", "ends") if key in raw}
    return Case(name, kind, definition, **rest)


Known = Callable[[Case, str, Object], bool]
"""Whether the outcome of a case (`first`, or `changed` after its change) equals the recorded one."""


class Player:
    """Runs cases through one connection; `sleep` waits in the cluster's time, `more` are paths of other kinds of children.

    The outcome of an instance is the state that does not change for `looks` polls. A controller on a busy machine writes in several
    steps with pauses, so where the outcome is `known`, the player waits for it.
    """

    def __init__(
        self,
        ask: RequestFunction,
        sleep: Callable[[float], Awaitable[None]],
        more: Iterable[str] = (),
        looks: int = 2,
        known: Known = lambda *_: True,
    ) -> None:
        self._ask, self._sleep, self._looks, self._known = ask, sleep, looks, known
        own = [
            f"/apis/{group}/v1/{plural}" if group else f"/api/v1/{plural}"
            for group, result in _CHILDREN.items()
            for plural in result
        ]
        self._collections = [*own, *more]

    async def define(self, case: Case) -> Object:
        """Whether a definition is accepted, the error if not, and its resulting object."""
        status, answer = await self._ask("POST", DEFINITIONS, case.definition)
        if status >= 400:
            return {"accepted": False, "by": "server", "message": answer.get("message", "")}
        result = await self._settled(f"{DEFINITIONS}/{case.definition['metadata']['name']}", taken=case.instance is not None)
        for kind, who in (("GraphAccepted", "controller"), ("KindReady", "cluster")):
            reported = _condition(result, kind)
            if reported.get("status") != "True":
                return {"accepted": False, "by": who, "message": reported.get("message", "")}
        return {"accepted": True, "order": result["status"].get("topologicalOrder"), "crd": await self._crd(case)}

    async def _settled(self, path: str, *, taken: bool) -> Object:
        """Wait until a definition's status is complete. An accepted definition (`taken`) may fail for a while and is retried."""
        for _ in range(LOOKS):
            _, result = await self._ask("GET", path)
            output = [_condition(result, kind).get("status") for kind in ("GraphAccepted", "KindReady", "Ready")]
            if output[2] == "True" or ("False" in output[:2] and not taken):
                return result
            await self._sleep(PAUSE)
        if "False" in output[:2]:
            return result
        raise AssertionError(f"{path} does not settle: {result.get('status')}")

    async def _crd(self, case: Case) -> Object:
        _, result = await self._ask("GET", f"{CRDS}?labelSelector=kro.run%2Fowned%3Dtrue")
        crd = next(item for item in result["items"] if item["spec"]["names"]["kind"] == case.kind)
        labels = {key: value for key, value in (crd["metadata"].get("labels") or {}).items() if "kro.run/" not in key}
        return {"spec": crd["spec"], "labels": labels, "annotations": crd["metadata"].get("annotations") or {}}

    async def serve(self, case: Case) -> Object:
        """The outcome of an instance: its objects when they are stable, and again after its change."""
        assert case.instance is not None
        await self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": case.namespace}})
        for obj in case.before:
            await self._must("POST", f"/api/v1/namespaces/{case.namespace}/{obj['kind'].lower()}s", obj)
        path = await self._path(case)
        schema = case.definition["spec"]["schema"]
        typed = {"apiVersion": f"{schema.get('group', 'kro.run')}/{schema['apiVersion']}", "kind": case.kind}
        status, answer = await self._ask("POST", path, {**typed, "metadata": {"name": "one"}, "spec": case.instance})
        if status >= 400:
            return {"refused": answer["message"]}
        for expected in case.answers:
            await self._answer(case, expected)
        result = {"first": await self._outcome(case, "first", f"{path}/one")}
        if case.change is not None:
            await self._must("PATCH", f"{path}/one", {"spec": case.change})
            result["changed"] = await self._outcome(case, "changed", f"{path}/one")
        return result

    async def _path(self, case: Case) -> str:
        _, result = await self._ask("GET", f"{CRDS}?labelSelector=kro.run%2Fowned%3Dtrue")
        spec = next(item["spec"] for item in result["items"] if item["spec"]["names"]["kind"] == case.kind)
        root = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"
        return (
            f"{root}/{spec['names']['plural']}"
            if case.cluster_wide
            else f"{root}/namespaces/{case.namespace}/{spec['names']['plural']}"
        )

    async def _must(self, method: str, path: str, body: Object) -> Object:
        status, answer = await self._ask(method, path, body)
        assert status < 300, answer
        return answer

    async def _answer(self, case: Case, wanted: Object) -> None:
        group = wanted["apiVersion"].rpartition("/")[0]
        root = f"/apis/{wanted['apiVersion']}" if group else "/api/v1"
        path = f"{root}/namespaces/{case.namespace}/{wanted['kind'].lower()}s/{wanted['name']}"
        for _ in range(LOOKS):
            if (await self._ask("GET", path))[0] == 200:
                await self._must("PATCH", f"{path}/status", {"status": wanted["status"]})
                return
            await self._sleep(PAUSE)
        raise AssertionError(f"{path} does not appear")

    async def _outcome(self, case: Case, part: str, path: str) -> Object:
        """The instance and its children once they are stable and as known, or as they are at the timeout."""
        seen: Object = {}
        still = 0
        for _ in range(LOOKS):
            _, instance = await self._ask("GET", path)
            now = {"instance": _shown(instance, owners=False), "children": await self._children(case)}
            observed = (instance.get("status") or {}).get("state")
            still = still + 1 if now == seen and observed == case.ends and _current(instance) else 0
            if still >= (self._looks if case.ends == "ACTIVE" else max(self._looks, 5)) and self._known(case, part, now):
                return now
            seen = now
            await self._sleep(PAUSE)
        if still:
            return seen
        raise AssertionError(f"{path} does not end as {case.ends}: {seen.get('instance')}")

    async def _children(self, case: Case) -> list[Object]:
        result: list[Object] = []
        selector = f"?labelSelector=kro.run%2Finstance-kind%3D{case.kind}"
        for path in filter(_mentions(case), self._collections):
            _, answer = await self._ask("GET", f"{path}{selector}")
            result += [{"kind": path.rpartition("/")[2], **_shown(item)} for item in answer.get("items") or ()]
        return sorted(result, key=lambda item: (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]))

    async def rest(self, case: Case, instance: Object) -> Object:
        """The outcome of an instance of another source, once nothing changes any more."""
        namespace = instance["metadata"].setdefault("namespace", "default")
        await self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = (await self._path(case)).replace(f"/namespaces/{case.namespace}/", f"/namespaces/{namespace}/")
        status, answer = await self._ask("POST", path, instance)
        if status >= 400:
            return {"refused": answer.get("reason")}
        return await self.rested(case, instance)

    async def rested(self, case: Case, instance: Object) -> Object:
        """The outcome of an instance that already exists."""
        path = (await self._path(case)).replace(
            f"/namespaces/{case.namespace}/", f"/namespaces/{instance['metadata']['namespace']}/"
        )
        seen: Object = {}
        still = 0
        for _ in range(LOOKS):
            _, result = await self._ask("GET", f"{path}/{instance['metadata']['name']}")
            now = {"instance": _shown(result, owners=False), "children": await self._children(case)}
            still = still + 1 if now == seen and (result.get("status") or {}).get("state") else 0
            if still >= _LONG:
                break
            seen = now
            await self._sleep(PAUSE)
        return seen


def _mentions(case: Case) -> Callable[[str], bool]:
    """Whether a definition creates objects of a collection; listing all other collections would dominate the run time."""
    kinds = {str((resource.get("template") or {}).get("kind") or "").lower() for resource in case.definition["spec"]["resources"]}
    plurals = {form for kind in kinds for form in (f"{kind}s", f"{kind}es", f"{kind[:-1]}ies", kind)}
    return lambda path: path.rpartition("/")[2] in plurals


def _current(instance: Object) -> bool:
    """Whether the status covers the current generation, if it reports one."""
    seen = [condition.get("observedGeneration", 0) for condition in (instance.get("status") or {}).get("conditions") or ()]
    return all(number >= instance["metadata"]["generation"] for number in seen)


def _condition(obj: Object, kind: str) -> Object:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _shown(obj: Object, *, owners: bool = True) -> Object:
    """An object without times, versions and counters.

    Children keep their managed fields. For instances they are dropped: kro writes labels and inventory with two managers,
    Sliceworks with one.
    """
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _VOLATILE}
    managers = {entry["manager"] for entry in obj["metadata"].get("managedFields") or () if "kro.run/" in entry["manager"]}
    if owners:
        metadata["owners"] = sorted(managers)
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "apiVersion", "kind")}
    if (rest.get("status") or {}).get("conditions"):
        kept = [
            {key: value for key, value in condition.items() if key not in ("lastTransitionTime", "observedGeneration", "message")}
            for condition in rest["status"]["conditions"]
        ]
        rest["status"] = {**rest["status"], "conditions": kept}
    text = orjson.dumps({"metadata": metadata, **rest}).decode()
    result: Object = orjson.loads(_HASH.sub("HASH", text))
    return result


def compiled(case: Case) -> Object:
    """The outcome of our compiler for a definition, in the player's format; no cluster is needed."""
    try:
        graph = compile_graph(definition_parser.parse(case.definition), BuiltinKinds())
    except DefinitionError:
        return {"accepted": False}
    crd = graph.crd
    crd_strategy.set_defaults(crd)
    if definition_errors(crd):
        return {"accepted": False}
    labels = {key: value for key, value in (crd["metadata"].get("labels") or {}).items() if "kro.run/" not in key}
    annotations = crd["metadata"].get("annotations") or {}
    shown = {"spec": crd["spec"], "labels": labels, "annotations": annotations}
    return {"accepted": True, "order": list(graph.order), "crd": _without_empty(shown)}


def _without_empty(value: Any) -> Any:
    """A definition as the API server stores it, without empty `properties`."""
    if isinstance(value, dict):
        return {key: _without_empty(item) for key, item in value.items() if not (key == "properties" and item == {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """The differences between two outcomes, one line each."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from differences(theirs.get(key, "nothing"), ours.get(key, "nothing"), f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, pair in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif theirs != ours:
        yield f"{path}: kro has {theirs!r}, ours {ours!r}"
