"""Label and field selectors: matching, and rejection of invalid ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.objects import config_map, pod

if TYPE_CHECKING:
    from tests.support.http import Api

LABELS = {
    "one": {"app": "web", "tier": "front", "n": "1"},
    "two": {"app": "web", "tier": "back", "n": "2"},
    "three": {"app": "db", "n": "10"},
    "four": {"empty": ""},
}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", "one two"),
        ("app==web", "one two"),
        ("app!=web", "four three"),
        ("app", "one three two"),
        ("!app", "four"),
        ("app in (web, db)", "one three two"),
        ("app in (web),tier notin (back)", "one"),
        ("tier notin (front)", "four three two"),
        ("app=web,tier=back", "two"),
        ("n>1", "three two"),
        ("n<2", "one"),
        ("n>0,n<10", "one two"),
        ("empty=", "four"),
        ("empty in ()", "four"),
        ("app = web , tier = front", "one"),
        ("tier in (front,back)", "one two"),
        ("absent=x", ""),
    ],
)
def test_label_selectors(api: Api, core: str, selector: str, names: str) -> None:
    for name, labels in LABELS.items():
        api.post(f"{core}/secrets", {"metadata": {"name": name, "labels": labels}}).ok(201)
    assert " ".join(api.get(f"{core}/secrets", {"labelSelector": selector}).ok(200).names) == names


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("app=web,", "found '', expected: identifier after ','"),
        ("app in", "unable to parse requirement: found '' expected: '('"),
        ("app in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("=web", "found '=', expected: !, identifier, or 'end of string'"),
        ("app=web tier=x", "found 'tier', expected: ',' or 'end of string'"),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_invalid_label_selectors_are_rejected(api: Api, core: str, selector: str, message: str) -> None:
    answer = api.get(f"{core}/pods", {"labelSelector": selector}).refused(400, "BadRequest")
    assert answer.message == message


def test_invalid_label_key_and_value_are_rejected(api: Api, core: str) -> None:
    answer = api.get(f"{core}/pods", {"labelSelector": "-bad=x"}).refused(400, "BadRequest")
    assert answer.message.startswith(
        'unable to parse requirement: <nil>: Invalid value: "-bad": name part must consist of alphanumeric'
    )
    answer = api.get(f"{core}/pods", {"labelSelector": "good=-bad-"}).refused(400, "BadRequest")
    assert 'values[0][good]: Invalid value: "-bad-": a valid label must be an empty string or consist of' in answer.message


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=p1", "p1"),
        ("metadata.name!=p1", "p2"),
        ("status.phase=Pending", "p1 p2"),
        ("status.phase!=Pending", ""),
        ("spec.nodeName=n1", "p2"),
        ("spec.nodeName=", "p1"),
        ("spec.restartPolicy=Always,metadata.name=p2", "p2"),
        ("spec.schedulerName=default-scheduler", "p1 p2"),
        ("spec.serviceAccountName=default", "p1 p2"),
        ("spec.hostNetwork=false", "p1 p2"),
        ("status.podIP=", "p1 p2"),
        ("status.nominatedNodeName=", "p1 p2"),
        ("metadata.name==p1", "p1"),
        ("=", "p1 p2"),
        ("!=,metadata.name=p1", "p1"),
    ],
)
def test_pod_field_selectors(api: Api, core: str, selector: str, names: str) -> None:
    api.post(f"{core}/pods", pod("p1")).ok(201)
    scheduled = pod("p2")
    scheduled["spec"]["nodeName"] = "n1"
    api.post(f"{core}/pods", scheduled).ok(201)
    assert " ".join(api.get(f"{core}/pods", {"fieldSelector": selector}).ok(200).names) == names


@pytest.mark.parametrize(
    ("resource", "selector", "names"),
    [
        ("secrets", "type=Opaque", "o"),
        ("secrets", "type=example.com/x", "x"),
        ("secrets", "metadata.namespace=nowhere", ""),
        ("events", "involvedObject.name=p,reason=Tested,type=Warning", "e"),
        ("events", "involvedObject.kind=Node", ""),
    ],
)
def test_other_field_selectors(api: Api, core: str, ns: str, *, resource: str, selector: str, names: str) -> None:
    api.post(f"{core}/secrets", {"metadata": {"name": "o"}}).ok(201)
    api.post(f"{core}/secrets", {"metadata": {"name": "x"}, "type": "example.com/x"}).ok(201)
    event = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": ns}, "reason": "Tested", "type": "Warning"}
    api.post(f"{core}/events", {"metadata": {"name": "e"}, **event}).ok(201)
    assert " ".join(api.get(f"{core}/{resource}", {"fieldSelector": selector}).ok(200).names) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("regarding.name=p,reason=Tested,type=Warning", "e"),
        ("reportingController=example.com/c", "e"),
        ("reportingController=example.com/d", ""),
        ("regarding.kind=Node", ""),
    ],
)
def test_field_selectors_of_new_events(api: Api, core: str, ns: str, selector: str, names: str) -> None:
    event = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": ns}, "reason": "Tested", "type": "Warning"}
    api.post(f"{core}/events", {"metadata": {"name": "e"}, **event, "reportingComponent": "example.com/c"}).ok(201)
    path = f"/apis/events.k8s.io/v1/namespaces/{ns}/events"
    assert " ".join(api.get(path, {"fieldSelector": selector}).ok(200).names) == names
    refused = api.get(path, {"fieldSelector": "involvedObject.name=p"}).refused(400, "BadRequest")
    assert "field label not supported: involvedObject.name" in refused.message


@pytest.mark.parametrize(
    ("group", "resource", "selector", "message"),
    [
        ("/api/v1", "pods", "spec.colour=blue", "field label not supported: spec.colour"),
        ("/api/v1", "configmaps", "data.a=1", '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        (
            "/apis/apps/v1",
            "deployments",
            "spec.replicas=1",
            '"spec.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_unknown_field_selectors_are_rejected(api: Api, ns: str, *, group: str, resource: str, selector: str, message: str) -> None:
    answer = api.get(f"{group}/namespaces/{ns}/{resource}", {"fieldSelector": selector}).refused(400, "BadRequest")
    assert answer.message.endswith(message)


def test_malformed_field_selector_is_rejected(api: Api, core: str) -> None:
    api.get(f"{core}/pods", {"fieldSelector": "metadata.name"}).refused(
        400, "BadRequest", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
    )


def test_field_selector_on_one_object(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map()).ok(201)
    api.post(f"{core}/configmaps", config_map("d")).ok(201)
    assert api.get(f"{core}/configmaps", {"fieldSelector": "metadata.name=c"}).ok(200).names == ["c"]
