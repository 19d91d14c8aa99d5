"""Admission webhooks: requests, patches, denials, and webhooks that fail, on the twin and on kube-apiserver."""

from __future__ import annotations

import socket
import threading
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.http import Api
from tests.support.objects import config_map, pod
from tests.support.webhooks import CONFIG_MAPS, GROUP, Reply, WebhookServer, allow, deny, installed, patch, serve, webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster

Object = dict[str, Any]
LABEL = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    with serve(tmp_path_factory.mktemp("webhooks")) as running:
        yield running


def check(cluster: Cluster, case: str, seen: Any, server: WebhookServer, **words: str) -> None:
    goldens.check(
        "test_webhooks",
        case,
        seen,
        real=cluster.name == "real",
        words={str(server.port): "PORT", **{v: k for k, v in words.items()}},
    )


def test_configuration_has_defaults(api: Api, cluster: Cluster, server: WebhookServer, ns: str) -> None:
    minimal = {
        "name": "a.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
        "rules": [CONFIG_MAPS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"never": "matches"}},
    }
    for kind in ("Mutating", "Validating"):
        path = f"{GROUP}/{kind.lower()}webhookconfigurations"
        created = api.post(path, {"metadata": {"name": ns}, "webhooks": [minimal]}).ok(201).json
        del created["metadata"]["managedFields"]
        check(cluster, f"defaults of {kind}", created, server, NS=ns)
        table = api.get(f"{path}/{ns}", accept="application/json;as=Table;v=v1;g=meta.k8s.io").ok().json
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Webhooks", "Age"]
        assert table["rows"][0]["cells"][:2] == [ns, 1]
        api.delete(f"{path}/{ns}").ok()


INVALID: dict[str, Object] = {
    "no name": {"name": ""},
    "short name": {"name": "a.b"},
    "bad name": {"name": "A.b.c"},
    "no review versions": {"admissionReviewVersions": []},
    "unknown review version": {"admissionReviewVersions": ["v9"]},
    "no side effects": {"sideEffects": None},
    "side effects": {"sideEffects": "Some"},
    "timeout": {"timeoutSeconds": 31},
    "failure policy": {"failurePolicy": "Maybe"},
    "match policy": {"matchPolicy": "Maybe"},
    "no client": {"clientConfig": {}},
    "both clients": {"clientConfig": {"url": "https://a", "service": {"name": "a", "namespace": "b"}}},
    "http": {"clientConfig": {"url": "http://user@a/?x=1#y"}},
    "service path": {"clientConfig": {"service": {"name": "", "namespace": "", "path": "a//B", "port": 70000}}},
    "empty rule": {"rules": [{}]},
    "wildcards": {
        "rules": [
            {
                "operations": ["*", "CREATE", "EAT"],
                "apiGroups": ["*", "a"],
                "apiVersions": ["*", ""],
                "resources": ["*", "pods", "pods/*", "pods/status", "*/scale", "a/scale", ""],
                "scope": "Some",
            }
        ]
    },
    "double wildcard": {"rules": [{**CONFIG_MAPS, "resources": ["*/*", "pods"]}]},
    "selector": {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
    "bad condition": {"matchConditions": [{"name": "a", "expression": "object.spec >"}]},
    "typed condition": {"matchConditions": [{"name": "a", "expression": "1 + 1"}, {"name": "a", "expression": "true"}]},
    "condition without name": {"matchConditions": [{"name": "", "expression": " "}, {"name": "a b", "expression": "true"}]},
    "unknown field of the request": {"matchConditions": [{"name": "a", "expression": "request.nope == 1"}]},
    "params in a condition": {"matchConditions": [{"name": "a", "expression": "params.x == 1"}]},
}


@pytest.mark.parametrize("case", INVALID)
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_invalid_configuration_is_rejected(
    api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, case: str, kind: str
) -> None:
    hook = {**webhook("a", {"url": "https://127.0.0.1:9/"}, ns), **INVALID[case]}
    body = {"metadata": {"name": ns}, "webhooks": [{name: value for name, value in hook.items() if value is not None}]}
    response = api.post(f"{GROUP}/{kind.lower()}webhookconfigurations", body)
    check(cluster, f"{kind}: {case}", response.refusal, server, NS=ns)


def test_names_are_unique_and_mutating_has_a_reinvocation_policy(
    api: Api, cluster: Cluster, server: WebhookServer, ns: str
) -> None:
    hook = webhook("a", {"url": "https://127.0.0.1:9/"}, ns)
    path = f"{GROUP}/mutatingwebhookconfigurations"
    check(cluster, "same names", api.post(path, {"metadata": {"name": ns}, "webhooks": [hook, hook]}).refusal, server, NS=ns)
    bad = {**hook, "reinvocationPolicy": "Sometimes"}
    check(cluster, "reinvocation policy", api.post(path, {"metadata": {"name": ns}, "webhooks": [bad]}).refusal, server, NS=ns)


def _tidied(request: Object) -> Object:
    """A request without managed fields and with its keys only where values are trivial."""
    for name in ("object", "oldObject"):
        (request.get(name) or {}).get("metadata", {}).pop("managedFields", None)
    request["userInfo"] = sorted({*request["userInfo"]} - {"uid"})
    if (request.get("object") or {}).get("metadata", {}).get("generateName"):
        request["name"] = request["object"]["metadata"]["name"] = "GENERATED"
    return request


@pytest.mark.usefixtures("published")
def test_review_describes_create_update_patch_and_delete(
    api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, core: str
) -> None:
    server.paths["watch"] = allow
    rule = {**CONFIG_MAPS, "operations": ["*"]}
    seen: list[Object] = []

    def look() -> None:
        """Remember the last review: a real server repeats an update that it began with an outdated object of its cache."""
        own = [
            request
            for request in server.seen["watch"]
            if (request["oldObject"] or request["object"])["metadata"].get("name") != "kube-root-ca.crt"
        ]
        seen.append(_tidied(deepcopy(own[-1])))
        assert cluster.name == "real" or len(own) == len(seen)

    with installed(api, server, "Validating", ns, webhook("watch", server.client("watch"), ns, rule)):
        api.post(f"{core}/configmaps", config_map("a"), query={"fieldManager": "tests"}).ok(201)
        look()
        api.post(f"{core}/configmaps", {"metadata": {"generateName": "b-"}}, query={"dryRun": "All"}).ok(201)
        look()
        api.put(f"{core}/configmaps/a", config_map("a", {"k": "w"})).ok()
        look()
        api.patch(f"{core}/configmaps/a", {"data": {"k": "x"}}).ok()
        look()
        api.delete(f"{core}/configmaps/a", {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}).ok()
        look()
    check(cluster, "reviews", seen, server, NS=ns)


def test_mutation_is_stored_with_defaults(api: Api, *, server: WebhookServer, ns: str, core: str) -> None:
    container = {"name": "sidecar", "image": "example.com/sidecar", "nonsense": 1}
    server.paths["inject"] = patch({"op": "add", "path": "/spec/containers/-", "value": container})
    rule = {**CONFIG_MAPS, "resources": ["pods"]}
    with installed(api, server, "Mutating", ns, webhook("inject", server.client("inject"), ns, rule)):
        created = api.post(f"{core}/pods", pod("p")).ok(201).json
    names = [container["name"] for container in created["spec"]["containers"]]
    assert names == ["main", "sidecar"]
    injected = created["spec"]["containers"][1]
    assert injected["terminationMessagePath"] == "/dev/termination-log"
    # ServiceAccount admission ran again on the injected container.
    assert injected["volumeMounts"] == created["spec"]["containers"][0]["volumeMounts"]
    assert "nonsense" not in injected


@pytest.mark.parametrize(
    "status",
    [
        {"message": "no"},
        {"reason": "Because"},
        {},
        {"message": "no", "code": 418, "reason": "Teapot", "details": {"name": "x"}},
        {"message": "no", "code": 200, "status": "Success"},
    ],
    ids=["message", "reason", "nothing", "code", "success"],
)
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_denial(api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, core: str, status: Object, kind: str) -> None:
    server.paths["deny"] = lambda _: (
        {"allowed": False, "status": status, "warnings": ["look out"]} if status else {"allowed": False}
    )
    with installed(api, server, kind, ns, webhook("deny", server.client("deny"), ns)):
        response = api.post(f"{core}/configmaps", config_map("a"))
    seen = {"status": response.json, "warnings": response.warnings}
    check(cluster, f"{kind} denies with {sorted(status)}", seen, server, NS=ns)


def _raw(response: Object, **review: Any) -> Reply:
    import orjson

    return Reply(orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response, **review}))


def _lies(uid: str) -> dict[str, Reply]:
    return {
        "garbage": Reply(b"garbage"),
        "empty body": Reply(b"", media="text/plain"),
        "empty object": Reply(b"{}"),
        "list": Reply(b"[]"),
        "no response": Reply(b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}'),
        "other uid": _raw({"uid": "x", "allowed": True}),
        "no uid": _raw({"allowed": True}),
        "patch without type": _raw({"uid": uid, "allowed": True, "patch": "W10="}),
        "type without patch": _raw({"uid": uid, "allowed": True, "patchType": "JSONPatch"}),
        "other patch type": _raw({"uid": uid, "allowed": True, "patchType": "Merge", "patch": "W3sib3AiOiJyZW1vdmUifV0="}),
        "not found": Reply(b"404 page not found\n", 404, "text/plain; charset=utf-8"),
        "error": Reply(b"it broke\n", 500, "text/plain"),
        "error in JSON": Reply(b'{"a":1}', 502),
        "unavailable": Reply(b"later", 503, "text/plain"),
        "teapot": Reply(b"short", 418, "text/plain"),
        "forbidden": Reply(b"go away", 403, "text/plain"),
        "cut": Reply(cut=True),
        "undecodable patch": _raw({"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": "e30="}),
        "removed path": _raw({"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": _encoded("remove", "/nope/a")}),
        "removed key": _raw({"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": _encoded("remove", "/data/nope")}),
        "failed test": _raw({"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": _encoded("test", "/data/a", "9")}),
        "unknown operation": _raw(
            {"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": _encoded("eat", "/data/a", "9")}
        ),
        "other kind": _raw({"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": _encoded("replace", "/kind", "Pod")}),
        "bad patch": _raw({"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": "???"}),
        "allowed is a string": _raw({"uid": uid, "allowed": "yes"}),
        "redirect to itself": Reply(status=307, location="/lie"),
        "permanent redirect to itself": Reply(status=308, location="/lie"),
        "redirect of a read": Reply(status=302, location="/lie"),
        "redirect to nowhere": Reply(status=307),
        "redirect to a closed port": Reply(status=307, location="https://127.0.0.1:9/a"),
        "redirect to another scheme": Reply(status=307, location="ftp://127.0.0.1/a"),
        "wrong type": _raw({"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": _encoded("replace", "/data", 5)}),
    }


def _encoded(operation: str, path: str, value: Any = None) -> str:
    import base64

    import orjson

    return base64.b64encode(orjson.dumps([{"op": operation, "path": path, "value": value}])).decode()


LIES = list(_lies(""))


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_broken_webhook_fails_closed_or_open(
    api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, core: str, kind: str
) -> None:
    case = ""
    server.paths["lie"] = lambda request: _lies(request["uid"])[case]
    seen = {}
    with installed(api, server, kind, ns, webhook("lie", server.client("lie"), ns)):
        for case in LIES:
            response = api.post(f"{core}/configmaps", config_map("a"), query={"dryRun": "All"})
            seen[case] = response.json if response.status != 201 else response.status
    check(cluster, f"{kind}: lies", seen, server, NS=ns)
    with installed(api, server, kind, ns, webhook("lie", server.client("lie"), ns, failurePolicy="Ignore")):
        opened = {}
        for case in LIES:
            opened[case] = api.post(f"{core}/configmaps", config_map("a"), query={"dryRun": "All"}).status
    check(cluster, f"{kind}: lies ignored", opened, server, NS=ns)


def test_unreachable_webhooks(api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, core: str) -> None:
    server.paths["hang"] = lambda _: Reply(hang=True)
    clients = {
        "refused": {"url": "https://127.0.0.1:9/a"},
        "hangs": server.client("hang"),
        "no service": {"service": {"namespace": ns, "name": "nope", "path": "/a"}},
    }
    seen = {}
    for case, client in clients.items():
        with installed(api, server, "Validating", ns, webhook("a", client, ns, timeoutSeconds=1)):
            answer = api.post(f"{core}/configmaps", config_map("a"))
            seen[case] = answer.json
    check(cluster, "unreachable", seen, server, NS=ns)
    unknown = {"url": server.client("hang")["url"]}
    with installed(api, server, "Validating", ns, webhook("a", unknown, ns)):
        answer = api.post(f"{core}/configmaps", config_map("a")).refused(500, "InternalError")
    assert "tls: failed to verify certificate: x509: certificate signed by unknown authority" in answer.message


def _has_localhost() -> bool:
    try:
        socket.gethostbyname("localhost")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_localhost(), reason="this machine does not resolve localhost")
def test_certificate_for_another_host_is_rejected(api: Api, *, tmp_path: Path, ns: str, core: str) -> None:
    with serve(tmp_path, name="other.example") as other:
        url = f"https://localhost:{other.port}/a"
        client = {**other.client("a"), "url": url}
        with installed(api, other, "Validating", ns, webhook("a", client, ns)):
            problem = "tls: failed to verify certificate: x509: certificate is valid for other.example, not localhost"
            message = f'failed calling webhook "a.example.com": failed to call webhook: Post "{url}?timeout=5s": {problem}'
            api.post(f"{core}/configmaps", config_map("a")).refused(500, "InternalError", f"Internal error occurred: {message}")
    assert "a" not in other.seen


def test_second_webhook_sees_the_patch_of_the_first_and_first_is_reinvoked(
    api: Api, *, server: WebhookServer, ns: str, core: str
) -> None:
    def count(request: Object) -> Object:
        labels = request["object"]["metadata"].get("labels") or {}
        return {"allowed": True, "warnings": [f"labels {sorted(labels)}"]}

    server.paths["first"] = count
    server.paths["second"] = patch(LABEL)
    hooks = (
        webhook("first", server.client("first"), ns, reinvocationPolicy="IfNeeded"),
        webhook("second", server.client("second"), ns),
    )
    with installed(api, server, "Mutating", ns, *hooks):
        answer = api.post(f"{core}/configmaps", {"metadata": {"name": "a"}}).ok(201)
    assert answer.json["metadata"]["labels"] == {"seen": "yes"}
    assert answer.warnings == ['299 - "labels []"', "299 - \"labels ['seen']\""]
    assert (len(server.seen["first"]), len(server.seen["second"])) == (2, 1)


def test_redirect_is_followed_with_the_review(api: Api, *, server: WebhookServer, ns: str, core: str) -> None:
    server.paths["moved"] = lambda _: Reply(status=307, location="/here?x=1")
    server.paths["here"] = patch(LABEL)
    with installed(api, server, "Mutating", ns, webhook("moved", server.client("moved"), ns)):
        answer = api.post(f"{core}/configmaps", {"metadata": {"name": "a"}}).ok(201)
    assert answer.json["metadata"]["labels"] == {"seen": "yes"}
    assert server.seen["here"] == server.seen["moved"]


def test_webhooks_that_undo_each_other_are_called_twice_at_most(api: Api, *, server: WebhookServer, ns: str, core: str) -> None:
    def set_to(value: str) -> Any:
        return patch({"op": "add", "path": "/metadata/labels", "value": {"is": value}})

    names = ("on", "off")
    for name in names:
        server.paths[name] = set_to(name)
    hooks = (webhook(name, server.client(name), ns, reinvocationPolicy="IfNeeded") for name in names)
    with installed(api, server, "Mutating", ns, *hooks):
        answer = api.post(f"{core}/configmaps", {"metadata": {"name": "a"}}).ok(201)
    assert answer.json["metadata"]["labels"] == {"is": "off"}
    assert [len(server.seen[name]) for name in names] == [2, 2]


def test_webhook_that_calls_itself_times_out(api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, core: str) -> None:
    """It creates an object of the kind that it reviews, and waits for it, without an end: other requests are served meanwhile."""
    over = threading.Event()

    def recurse(_: Object) -> Object:
        if not over.is_set():
            own = Api(cluster.url, cluster.authority, cluster.token)
            own.post(f"{core}/configmaps", {"metadata": {"generateName": "a-"}})
            own.close()
        return {"allowed": True}

    server.paths["recurse"] = recurse
    try:
        with installed(api, server, "Validating", ns, webhook("a", server.client("recurse"), ns, timeoutSeconds=1)):
            answer = api.post(f"{core}/configmaps", config_map("first"))
            api.get("/readyz").ok(200)
            api.post(f"{core}/secrets", {"metadata": {"name": "other"}}).ok(201)
            over.set()
    finally:
        over.set()
    check(cluster, "calls itself", answer.json, server, NS=ns)
    assert len(server.seen["recurse"]) > 1
    api.get(f"{core}/configmaps/first").refused(404, "NotFound")


def test_match_conditions_and_object_selector_filter(api: Api, *, server: WebhookServer, ns: str, core: str) -> None:
    server.paths["deny"] = deny("no")
    conditions = [
        {"name": "not-nodes", "expression": "!('system:nodes' in request.userInfo.groups)"},
        {"name": "named", "expression": "object.metadata.name.startsWith('bad')"},
    ]
    hooks = (
        webhook("conditions", server.client("deny"), ns, matchConditions=conditions),
        webhook("selected", server.client("deny"), ns, objectSelector={"matchLabels": {"deny": "me"}}),
    )
    with installed(api, server, "Validating", ns, *hooks):
        api.post(f"{core}/configmaps", config_map("good")).ok(201)
        api.post(f"{core}/configmaps", config_map("bad")).refused(
            400, "", 'admission webhook "conditions.example.com" denied the request: no'
        )
        labeled = {"metadata": {"name": "labeled", "labels": {"deny": "me"}}}
        api.post(f"{core}/configmaps", labeled).refused(400, "", 'admission webhook "selected.example.com" denied the request: no')


def test_condition_that_fails_is_forbidden_or_ignored(
    api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, core: str
) -> None:
    conditions = [{"name": "fails", "expression": "object.nope.nope == 1"}]
    server.paths["deny"] = deny("no")
    with installed(api, server, "Validating", ns, webhook("a", server.client("deny"), ns, matchConditions=conditions)):
        check(cluster, "condition fails", api.post(f"{core}/configmaps", config_map("a")).json, server, NS=ns)
    hook = webhook("a", server.client("deny"), ns, matchConditions=conditions, failurePolicy="Ignore")
    with installed(api, server, "Validating", ns, hook):
        api.post(f"{core}/configmaps", config_map("a")).ok(201)


def test_dry_run_needs_no_side_effects_and_v1beta1_is_sent(api: Api, *, server: WebhookServer, ns: str, core: str) -> None:
    server.paths["old"] = allow
    hook = webhook("old", server.client("old"), ns, admissionReviewVersions=["v1beta1", "v1"], sideEffects="NoneOnDryRun")
    with installed(api, server, "Validating", ns, hook):
        api.post(f"{core}/configmaps", config_map("a"), query={"dryRun": "All"}).ok(201)
    (review,) = [review for review in server.reviews if review["request"].get("name") == "a"]
    assert (review["apiVersion"], review["request"]["dryRun"]) == ("admission.k8s.io/v1beta1", True)


def test_equivalent_version_is_converted_and_exact_is_not(api: Api, *, server: WebhookServer, ns: str) -> None:
    server.paths["events"] = deny("no")
    scaler = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    }
    path = f"/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers"
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v2"],
        "operations": ["CREATE"],
        "resources": ["horizontalpodautoscalers"],
    }
    with installed(api, server, "Validating", ns, webhook("a", server.client("events"), ns, rule, matchPolicy="Exact")):
        api.post(path, scaler, query={"dryRun": "All"}).ok(201)
    with installed(api, server, "Validating", ns, webhook("a", server.client("events"), ns, rule)):
        api.post(path, scaler).refused(400, "", 'admission webhook "a.example.com" denied the request: no')
    (request,) = server.seen["events"]
    assert request["kind"] == {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"}
    assert request["requestKind"] == {"group": "autoscaling", "version": "v1", "kind": "HorizontalPodAutoscaler"}
    assert request["object"]["apiVersion"] == "autoscaling/v2"


@pytest.mark.usefixtures("published")
def test_subresources_and_deletion_can_be_denied(api: Api, cluster: Cluster, *, server: WebhookServer, ns: str, core: str) -> None:
    server.paths["deny"] = deny("no")
    api.post(f"{core}/pods", pod("p")).ok(201)
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["pods/*", "configmaps", "serviceaccounts/token"],
    }
    api.post(f"{core}/configmaps", config_map("a")).ok(201)
    with installed(api, server, "Validating", ns, webhook("a", server.client("deny"), ns, rule, objectSelector={})):
        answers = {
            "delete": api.delete(f"{core}/configmaps/a").message,
            "deletecollection": api.delete(f"{core}/configmaps", query={"fieldSelector": "metadata.name=a"}).message,
            "attach": api.post(f"{core}/pods/p/attach", {}, query={"container": "main", "stdin": "true"}).message,
            "status": api.patch(f"{core}/pods/p/status", {"status": {"message": "x"}}).message,
            "binding": api.post(
                f"{core}/pods/p/binding",
                {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}},
            ).message,
            "eviction": api.post(
                f"{core}/pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
            ).message,
            "token": api.post(
                f"{core}/serviceaccounts/default/token",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}},
            ).message,
        }
        assert set(answers.values()) == {'admission webhook "a.example.com" denied the request: no'}, answers
        kinds = [(item["operation"], item["kind"]["kind"], item.get("subResource", "")) for item in server.seen["deny"]]
        attach = next(item for item in server.seen["deny"] if item.get("subResource") == "attach")
    assert kinds == [
        ("DELETE", "ConfigMap", ""),
        ("DELETE", "ConfigMap", ""),
        ("CONNECT", "PodAttachOptions", "attach"),
        ("UPDATE", "Pod", "status"),
        ("CREATE", "Binding", "binding"),
        ("CREATE", "Eviction", "eviction"),
        ("CREATE", "TokenRequest", "token"),
    ]
    check(cluster, "attach", _tidied(attach), server, NS=ns)
    api.get(f"{core}/configmaps/a").ok()


def test_configurations_are_exempt(api: Api, *, server: WebhookServer, ns: str) -> None:
    """No webhook can prevent the deletion of webhook configurations."""
    server.paths["deny"] = deny("no")
    rule = {"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    with installed(api, server, "Validating", ns, webhook("a", server.client("deny"), ns, rule)) as configuration:
        path = f"{GROUP}/validatingwebhookconfigurations/{configuration['metadata']['name']}"
        api.patch(path, {"metadata": {"labels": {"a": "b"}}}).ok()
        api.delete(path).ok()
    assert "deny" not in server.seen


def test_update_is_retried_when_the_object_changes_meanwhile(api: Api, *, server: WebhookServer, ns: str, core: str) -> None:
    api.post(f"{core}/configmaps", config_map("a", {"n": "0"})).ok(201)
    changes: list[Any] = []

    def change(request: Object) -> Object:
        if request["name"] == "a" and request["userInfo"] and not changes and request["object"]["data"].get("patched"):
            changes.append(api.patch(f"{core}/configmaps/a", {"data": {"n": "1"}}).ok())
        return {"allowed": True}

    server.paths["change"] = change
    rule = {**CONFIG_MAPS, "operations": ["UPDATE"]}
    with installed(api, server, "Validating", ns, webhook("a", server.client("change"), ns, rule)):
        patched = api.patch(f"{core}/configmaps/a", {"data": {"patched": "yes"}}).ok().json
    assert patched["data"] == {"n": "1", "patched": "yes"}
    assert len(changes) == 1
