"""Defaults and errors of the corpus equal those of a real kube-apiserver."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.schemas.rules.cases import Case, Json, answers, cases

from sliceworks.schemas import decode, set_defaults
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver.patch.jsonpatch import merge_patch
from sliceworks.twin.apiserver.registry.kinds import STRATEGIES
from sliceworks.twin.apiserver.validation.error_list import ErrorList
from sliceworks.twin.apiserver.validation.object_meta import validate_object_meta, validate_object_meta_update

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.registry.resources import ClusterView, Strategy

CASES = {case.id: case for case in cases()}
ANSWERS = answers()
# Set by the API server's strategies and admission, not by defaults.
SET_ELSEWHERE = {
    "Pod": (
        "spec.serviceAccountName",
        "spec.serviceAccount",
        "spec.priority",
        "spec.preemptionPolicy",
        "spec.tolerations",
        "status",
    ),
    "Service": (
        "spec.clusterIP",
        "spec.clusterIPs",
        "spec.ipFamilies",
        "spec.ipFamilyPolicy",
        "spec.ports",
        "spec.healthCheckNodePort",
    ),
    "DaemonSet": ("metadata.annotations",),
    "Namespace": ("metadata.labels", "spec.finalizers"),
    "Job": ("metadata.labels", "spec.selector", "spec.template.metadata.labels"),
    "PersistentVolumeClaim": ("metadata.finalizers", "spec.dataSourceRef"),
    "PersistentVolume": ("metadata.finalizers", "status.lastPhaseTransitionTime"),
    "Node": ("spec.taints",),
    "CertificateSigningRequest": ("spec.username", "spec.groups", "spec.uid"),
    "Secret": ("data", "stringData"),
}
# The real message contains Go structs here; only the rest is compared.
SHOWN_BY_GO = re.compile(
    r"spec(\.(template|successPolicy|podFailurePolicy|scopeSelector.*|containers\[\d+\]\.securityContext"
    r"|nodeSelector\.nodeSelectorTerms))?"
)


def test_there_is_an_answer_to_every_case() -> None:
    assert set(CASES) == set(ANSWERS)
    assert len(CASES) >= 150


@pytest.mark.parametrize("name", CASES)
def test_create(name: str) -> None:
    case, answer = CASES[name], ANSWERS[name]["create"]
    created = kept(case.object)
    if "object" in answer:
        assert errors(case, before_validation(created)) == []
        assert own(created) == own(answer["object"])
    else:
        assert errors(case, before_validation(created)) == expected(answer["causes"])


@pytest.mark.parametrize("name", [name for name, answer in ANSWERS.items() if "object" in answer["create"]])
def test_warnings(name: str) -> None:
    obj = kept(CASES[name].object)
    check = strategy_of(obj).warnings
    known = [text for text in ANSWERS[name]["create"].get("warnings", ()) if "is deprecated in v1.33+" not in text]
    assert (check(obj) if check else []) == known


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.update is not None])
def test_update(name: str) -> None:
    case, answer = CASES[name], ANSWERS[name]["update"]
    old = before_validation(kept(ANSWERS[name]["create"]["object"]))
    old["metadata"] |= {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "UID"}
    new = kept(merge_patch(old, case.update))
    new["metadata"]["creationTimestamp"] = old["metadata"]["creationTimestamp"]  # put back before anything is checked
    result = errors(case, new, old)
    assert result == (expected(answer["causes"]) if "causes" in answer else [])


def strategy_of(obj: Json) -> Strategy:
    group = obj["apiVersion"].rpartition("/")[0]
    plurals = {(resource.group, resource.kind): resource.plural for resource in builtin_scheme().resources}
    return STRATEGIES[f"{group}/{plurals[group, obj['kind']]}"]


def kept(obj: Json) -> Json:
    """The object after pruning."""
    obj = deepcopy(obj)
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = builtin_scheme().schema(group, version, obj["kind"])
    created: Json = decode(schema, obj, [])
    set_defaults(schema, created)
    if group == "resource.k8s.io" and not obj.get("status"):
        strategy_of(obj).prepare_for_create(created, cast("ClusterView", None))
    return created


def before_validation(obj: Json) -> Json:
    """The object after its strategy and before validation."""
    obj = deepcopy(obj)
    spec: Json = obj.get("spec") or {}
    if obj["kind"] == "Service" and spec.get("clusterIP") and "clusterIPs" not in spec:
        spec["clusterIPs"] = [spec["clusterIP"]]
    if obj["kind"] == "Job" and "selector" not in spec:
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "UID"}}
        spec["template"]["metadata"].setdefault("labels", {})["batch.kubernetes.io/controller-uid"] = "UID"
    if obj["kind"] == "PersistentVolumeClaim" and ("dataSource" in spec) != ("dataSourceRef" in spec):
        source = spec.get("dataSource") or spec.get("dataSourceRef")
        spec.update(dataSource=source, dataSourceRef=source)
    if obj["kind"] == "Pod":
        spec.setdefault("serviceAccountName", "default")
    return obj


def errors(case: Case, obj: Json, old: Json | None = None) -> list[tuple[str, str, str]]:
    strategy, result = strategy_of(case.object), ErrorList()
    if old is None:
        validate_object_meta(result, obj["metadata"])
    else:
        validate_object_meta_update(result, obj["metadata"], old["metadata"])
    if case.subresource and old is not None:
        part = strategy.parts.get(case.subresource)
        validate = part.validate if part else strategy.validate_status
        assert validate is not None
        validate(result, obj, old)
        return expected([error.cause() for error in result])
    if strategy.validate is not None:
        strategy.validate(result, obj)
    if old is not None and strategy.validate_update is not None:
        strategy.validate_update(result, obj, old)
    return expected([error.cause() for error in result])


def expected(causes: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    """Order and repetition do not count: Go goes through maps in any order."""
    return sorted({(cause["field"], cause["reason"], plain(cause["field"], cause["message"])) for cause in causes})


def plain(field: str, message: str) -> str:
    # A difference of two Go structs follows the first line.
    message = message.partition("\n")[0]
    return re.sub(r" value: (\{.*\}|\[.*\])", " value: {...}", message) if SHOWN_BY_GO.fullmatch(field) else message


def own(obj: Json) -> Json:
    obj = deepcopy(obj)
    for field in ("uid", "creationTimestamp", "resourceVersion", "generation"):
        obj["metadata"].pop(field, None)
    for path in SET_ELSEWHERE.get(obj["kind"], ()):
        *parents, last = path.split(".")
        holder: Any = obj
        for parent in parents:
            holder = holder.get(parent) or {}
        holder.pop(last, None)
    return obj
