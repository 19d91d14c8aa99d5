"""Authentication: static tokens, service account tokens and their expiry, impersonation."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, BadRequest, Forbidden, SliceworksError, Unauthorized
from sliceworks.twin import main
from sliceworks.twin.apiserver.auth import service_account_token
from sliceworks.twin.apiserver.auth.authentication import ANONYMOUS, Authenticator, User, administrator, impersonate, new_token
from sliceworks.twin.apiserver.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Rbac
from sliceworks.twin.apiserver.auth.service_account_token import TokenIssuer, token_request
from sliceworks.twin.apiserver.bootstrap import parse_rule
from sliceworks.twin.apiserver.handlers.review import token_review

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ADMIN = "a-fixed-token"
_MASTER = User("root", groups=("system:masters",))


class Cluster:
    """A few objects and an authenticator that reads them."""

    def __init__(self, issuer: TokenIssuer | None = None) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.issuer = issuer or TokenIssuer()
        self.authenticator = Authenticator({_ADMIN: administrator()}, self.issuer, self.get)
        self.add("/serviceaccounts", "g1", "default", "sa-uid")

    def add(self, resource: str, namespace: str, name: str, uid: str, **fields: Any) -> None:
        self.objects[resource, namespace, name] = {"metadata": {"name": name, "namespace": namespace, "uid": uid}, **fields}

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.objects.get((resource, namespace, name))

    def request(self, name: str = "default", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        return token_request({"metadata": metadata or {}, "spec": spec}, "g1", name, self.issuer, self.get)

    def login(self, token: str) -> User:
        return self.authenticator.authenticate({"authorization": f"Bearer {token}"})

    def review(self, token: str, *audiences: str) -> dict[str, Any]:
        status: dict[str, Any] = token_review({"spec": {"token": token, "audiences": list(audiences)}}, self.authenticator)[
            "status"
        ]
        return status


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    result: dict[str, Any] = orjson.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return result


def test_static_token_and_anonymous_user(cluster: Cluster) -> None:
    assert cluster.login(_ADMIN).is_master
    assert cluster.authenticator.authenticate({"authorization": f"bearer  {_ADMIN} "}).is_master
    for header in ({}, {"authorization": "Basic abc"}, {"authorization": "Bearer "}):
        assert cluster.authenticator.authenticate(header) is ANONYMOUS
    shown = User("jane")
    assert cluster.authenticator.authenticate({"authorization": "Bearer nonsense"}, shown) is shown
    assert len(new_token()) > 40


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", "e30.e30.", "e30.W10.AA", "é.é.é", "e30=.e30=.x"])
def test_unknown_tokens_are_rejected_without_repeating_them(cluster: Cluster, token: str) -> None:
    with pytest.raises(Unauthorized) as caught:
        cluster.login(token)
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


def test_token_request_round_trip(cluster: Cluster) -> None:
    response = cluster.request()
    assert response["spec"] == {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600, "boundObjectRef": None}
    assert response["metadata"]["uid"] == "sa-uid"
    result = claims(response["status"]["token"])
    assert result["sub"] == "system:serviceaccount:g1:default"
    assert result["kubernetes.io"] == {"namespace": "g1", "serviceaccount": {"name": "default", "uid": "sa-uid"}}
    assert result["exp"] - result["iat"] == 3600
    user = cluster.login(response["status"]["token"])
    assert user.info() == {
        "username": "system:serviceaccount:g1:default",
        "uid": "sa-uid",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:g1", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={result['jti']}"]},
    }


def test_token_expires_by_the_clock_of_the_twin(cluster: Cluster) -> None:
    async def main() -> None:
        token = cluster.request(expirationSeconds=600)["status"]["token"]
        await clock.sleep(600 + 59)
        assert cluster.login(token).name == "system:serviceaccount:g1:default"
        await clock.sleep(2)
        assert cluster.review(token) == {"user": {}, "error": "[invalid bearer token, service account token has expired]"}
        with pytest.raises(Unauthorized):
            cluster.login(token)

    clock.run(main(), virtual=True, start=datetime(2027, 1, 1, tzinfo=UTC))


def test_token_is_invalid_without_its_account(cluster: Cluster) -> None:
    token = cluster.request()["status"]["token"]
    cluster.add("/serviceaccounts", "g1", "default", "another-uid")
    assert cluster.review(token)["error"].endswith("service account UID (another-uid) does not match claim (sa-uid)]")
    cluster.objects.clear()
    assert cluster.review(token)["error"] == '[invalid bearer token, serviceaccounts "default" not found]'


def test_pod_token_is_bound_to_the_pod_and_valid_for_a_year(cluster: Cluster) -> None:
    cluster.add("/pods", "g1", "p1", "pod-uid", spec={"serviceAccountName": "default", "nodeName": "n1"})
    cluster.add("/nodes", "", "n1", "node-uid")
    response = cluster.request(
        expirationSeconds=3607, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p1", "uid": "pod-uid"}
    )
    result = claims(response["status"]["token"])
    assert result["kubernetes.io"]["pod"] == {"name": "p1", "uid": "pod-uid"}
    assert result["kubernetes.io"]["node"] == {"name": "n1", "uid": "node-uid"}
    assert result["exp"] - result["iat"] == 365 * 24 * 3600
    assert result["kubernetes.io"]["warnafter"] - result["iat"] == 3607
    extra = cluster.login(response["status"]["token"]).extra
    assert extra["authentication.kubernetes.io/pod-name"] == ("p1",)
    assert extra["authentication.kubernetes.io/node-uid"] == ("node-uid",)
    del cluster.objects["/nodes", "", "n1"]
    cluster.login(response["status"]["token"])
    del cluster.objects["/pods", "g1", "p1"]
    assert (
        cluster.review(response["status"]["token"])["error"] == "[invalid bearer token, service account token has been invalidated]"
    )


def test_token_audiences(cluster: Cluster) -> None:
    token = cluster.request(audiences=["a", "b"])["status"]["token"]
    with pytest.raises(Unauthorized):
        cluster.login(token)
    assert cluster.review(token)["error"] == (
        '[invalid bearer token, token audiences ["a" "b"] is invalid for the target audiences ["https://kubernetes.default.svc"]]'
    )
    assert cluster.review(token, "b", "c")["audiences"] == ["b"]
    assert cluster.review(_ADMIN, "foo", "https://kubernetes.default.svc")["audiences"] == ["https://kubernetes.default.svc"]
    assert cluster.review(_ADMIN, "foo") == {"user": {}, "error": "invalid bearer token"}
    assert cluster.review("x") == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize(
    ("name", "metadata", "spec", "code", "message"),
    [
        ("nope", {}, {}, 404, 'serviceaccounts "nope" not found'),
        (
            "default",
            {"name": "d"},
            {},
            422,
            (
                'TokenRequest.authentication.k8s.io "default" is invalid: metadata.name: Invalid value: "d": '
                "must match the service account name if specified"
            ),
        ),
        (
            "default",
            {},
            {"expirationSeconds": 10},
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 10: '
                "may not specify a duration less than 10 minutes"
            ),
        ),
        ("default", {}, {"expirationSeconds": 100000000000}, 422, None),
        (
            "default",
            {},
            {"boundObjectRef": {"kind": "Foo", "apiVersion": "v1", "name": "x"}},
            400,
            "cannot bind token to object of type /v1, Kind=Foo",
        ),
        ("default", {}, {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 404, 'pods "x" not found'),
        (
            "default",
            {},
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "other"}},
            400,
            'cannot bind token for serviceaccount "default" to pod running with different serviceaccount name.',
        ),
        (
            "default",
            {},
            {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "abc"}},
            409,
            (
                'Operation cannot be fulfilled on Secret "s": the UID in the bound object reference (abc) does not match '
                "the UID in record. The object might have been deleted and then recreated"
            ),
        ),
    ],
)
def test_invalid_token_requests_are_rejected(
    cluster: Cluster, *, name: str, metadata: dict[str, Any], spec: dict[str, Any], code: int, message: str | None
) -> None:
    cluster.add("/pods", "g1", "other", "u", spec={"serviceAccountName": "robot"})
    cluster.add("/secrets", "g1", "s", "u")
    with pytest.raises(ApiError) as caught:
        cluster.request(name, metadata, **spec)
    assert caught.value.code == code
    assert message is None or caught.value.message == message


def test_signing_key_is_persistent_and_private(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "service-account.key"
    token = Cluster(TokenIssuer(file)).request()["status"]["token"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert Cluster(TokenIssuer(file)).login(token).name == "system:serviceaccount:g1:default"
    with pytest.raises(Unauthorized):
        Cluster().login(token)


def test_forged_tokens_are_rejected(cluster: Cluster) -> None:
    head, body, signature = cluster.request()["status"]["token"].split(".")
    forged = {**claims(f"{head}.{body}.{signature}"), "sub": "system:serviceaccount:kube-system:root"}
    other = urlsafe_b64encode(orjson.dumps(forged)).rstrip(b"=").decode()
    unsigned = urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    for token in (
        f"{head}.{other}.{signature}",
        f"{unsigned}.{body}.",
        f"{unsigned}.{body}.{signature}",
        f"{head}.{body}.{signature[:-4]}AAAA",
    ):
        with pytest.raises(Unauthorized):
            cluster.login(token)


def test_jwks_document(cluster: Cluster) -> None:
    (key,) = cluster.issuer.jwks()["keys"]
    assert (key["kty"], key["alg"], key["crv"]) == ("EC", "ES256", "P-256")
    assert cluster.issuer.configuration("https://here")["jwks_uri"] == "https://here/openid/v1/jwks"


@pytest.fixture
def rbac() -> Rbac:
    """Joe may impersonate bob."""
    roles = [{"metadata": {"name": "r"}, "rules": [parse_rule("impersonate on users named bob")]}]
    ref = {"kind": "ClusterRole", "name": "r"}
    bindings = [{"metadata": {"name": "b"}, "roleRef": ref, "subjects": [{"kind": "User", "name": "joe"}]}]
    kept: dict[str, list[dict[str, Any]]] = {CLUSTER_ROLES: roles, CLUSTER_ROLE_BINDINGS: bindings}
    return Rbac(lambda resource: kept.get(resource, []))


def test_impersonation_adds_groups(rbac: Rbac) -> None:
    assert impersonate(rbac, _MASTER, {}) is _MASTER
    assert impersonate(rbac, _MASTER, {"impersonate-user": "bob"}) == User("bob", groups=("system:authenticated",))
    many = {
        "impersonate-user": "bob",
        "impersonate-group": "a\nb",
        "impersonate-uid": "7",
        "impersonate-extra-scopes%2fx": "y",
    }
    assert impersonate(rbac, _MASTER, many) == User("bob", "7", ("a", "b", "system:authenticated"), {"scopes/x": ("y",)})
    account = impersonate(rbac, _MASTER, {"impersonate-user": "system:serviceaccount:g1:x"})
    assert account.groups == ("system:serviceaccounts", "system:serviceaccounts:g1", "system:authenticated")
    assert impersonate(rbac, _MASTER, {"impersonate-user": "system:anonymous"}).groups == ("system:unauthenticated",)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            {"impersonate-user": "amy"},
            'users "amy" is forbidden: User "joe" cannot impersonate resource "users" in API group "" at the cluster scope',
        ),
        (
            {"impersonate-user": "bob", "impersonate-group": "g"},
            'groups "g" is forbidden: User "joe" cannot impersonate resource "groups" in API group "" at the cluster scope',
        ),
        (
            {"impersonate-user": "bob", "impersonate-extra-a%2fb": "1"},
            (
                'userextras.authentication.k8s.io "1" is forbidden: User "joe" cannot impersonate resource "userextras/a/b" '
                'in API group "authentication.k8s.io" at the cluster scope'
            ),
        ),
        (
            {"impersonate-user": "system:serviceaccount:g1:zoo"},
            (
                'serviceaccounts "zoo" is forbidden: User "joe" cannot impersonate resource "serviceaccounts" in API group "" '
                'in the namespace "g1"'
            ),
        ),
    ],
)
def test_impersonation_needs_permission(rbac: Rbac, headers: dict[str, str], message: str) -> None:
    assert impersonate(rbac, User("joe"), {"impersonate-user": "bob"}).name == "bob"
    with pytest.raises(Forbidden) as caught:
        impersonate(rbac, User("joe"), headers)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        ({"impersonate-group": "amy"}, "{Group  amy    }"),
        ({"impersonate-uid": "5"}, "{UID  5  authentication.k8s.io/v1  }"),
        ({"impersonate-extra-foo": "5"}, "{UserExtra  5  authentication.k8s.io/v1  foo}"),
    ],
)
def test_impersonation_needs_a_user(rbac: Rbac, headers: dict[str, str], shown: str) -> None:
    with pytest.raises(BadRequest) as caught:
        impersonate(rbac, _MASTER, headers)
    assert caught.value.message == f"requested [{shown}] without impersonating a user"


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_token_file_without_a_token_is_an_error(tmp_path: Path, content: bytes) -> None:
    """An empty token would lock the administrator out."""
    file = tmp_path / "token"
    assert main._token(file) == main._token(file) == file.read_text()
    file.write_bytes(content)
    with pytest.raises(SliceworksError) as refusal:
        main._token(file)
    assert refusal.value.message == f"{file}: contains no token"


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_service_account_key_that_is_none_is_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "service-accounts.pem"
    file.write_bytes(content)
    with pytest.raises(SliceworksError) as refusal:
        service_account_token._load(file)
    assert refusal.value.message == f"{file}: not a private key"
