"""Our defaults and errors are those of a real kube-apiserver, for every object of the corpus."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest
from tests.schemas.rules.cases import Case, Json, answers, cases

from sliceworks.schemas import rules
from sliceworks.schemas.builtins import catalogue
from sliceworks.schemas.patches import merge_patch
from sliceworks.schemas.structural import decode, set_defaults

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
    "Secret": ("data", "stringData"),
}
# Go shows whole structs of its own here; only what follows them is compared.
SHOWN_BY_GO = re.compile(r"spec\.(template|successPolicy|podFailurePolicy|scopeSelector.*|containers\[\d+\]\.securityContext)")


def test_there_is_an_answer_to_every_case() -> None:
    assert set(CASES) == set(ANSWERS)
    assert len(CASES) >= 150


@pytest.mark.parametrize("name", CASES)
def test_create(name: str) -> None:
    case, answer = CASES[name], ANSWERS[name]["create"]
    made = kept(case.object)
    if "object" in answer:
        assert errors(case, before_validation(made)) == []
        assert own(made) == own(answer["object"])
    else:
        assert errors(case, before_validation(made)) == expected(answer["causes"])


@pytest.mark.parametrize("name", [name for name, answer in ANSWERS.items() if "object" in answer["create"]])
def test_warnings(name: str) -> None:
    obj = kept(CASES[name].object)
    check = rules.kind_warnings().get(f"{obj['apiVersion'].rpartition('/')[0]}/{obj['kind']}")
    known = [text for text in ANSWERS[name]["create"].get("warnings", ()) if "is deprecated in v1.33+" not in text]
    assert (check(obj) if check else []) == known


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.update is not None])
def test_update(name: str) -> None:
    case, answer = CASES[name], ANSWERS[name]["update"]
    old = before_validation(kept(ANSWERS[name]["create"]["object"]))
    old["metadata"] |= {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "UID"}
    new = kept(merge_patch(old, case.update))
    new["metadata"]["creationTimestamp"] = old["metadata"]["creationTimestamp"]  # put back before anything is checked
    found = errors(case, new, old)
    assert found == (expected(answer["causes"]) if "causes" in answer else [])


def kept(obj: Json) -> Json:
    """The object as the schema engine keeps it."""
    obj = deepcopy(obj)
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = catalogue().schema(group, version, obj["kind"])
    made: Json = decode(schema, obj, [])
    set_defaults(schema, made)
    return made


def before_validation(obj: Json) -> Json:
    """What a strategy has done to an object by the time it is validated."""
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
    kind = f"{case.object['apiVersion'].rpartition('/')[0]}/{obj['kind']}"
    found = (
        rules.metadata_errors(obj["metadata"]) if old is None else rules.metadata_update_errors(obj["metadata"], old["metadata"])
    )
    if case.subresource and old is not None:
        found += rules.status_checks()[kind](obj, old)
        return expected([error.cause() for error in found])
    if kind in rules.kind_checks():
        found += rules.kind_checks()[kind](obj)
    if old is not None and kind in rules.update_checks():
        found += rules.update_checks()[kind](obj, old)
    return expected([error.cause() for error in found])


def expected(causes: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    """Order and repetition do not count: Go goes through maps in any order."""
    return sorted({(cause["field"], cause["reason"], plain(cause["field"], cause["message"])) for cause in causes})


def plain(field: str, message: str) -> str:
    # A difference of two Go structs follows the first line.
    message = message.partition("\n")[0]
    return re.sub(r" value: \{.*\}", " value: {...}", message) if SHOWN_BY_GO.fullmatch(field) else message


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
