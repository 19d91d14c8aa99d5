"""Tokens of service accounts in Secrets: contents, use, and their end."""

from __future__ import annotations

import json
from base64 import b64decode, urlsafe_b64decode
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]
TYPE = "kubernetes.io/service-account-token"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"


class Secrets:
    """The service account `robot` of a namespace, and Secrets with its tokens."""

    def __init__(self, api: Api, ns: str) -> None:
        self.api, self.ns = api, ns
        self.path = f"/api/v1/namespaces/{ns}/secrets"
        self.accounts = f"/api/v1/namespaces/{ns}/serviceaccounts"
        self.account = api.post(self.accounts, {"metadata": {"name": "robot"}}).ok(201).json

    def create(self, name: str = "key", **fields: Any) -> None:
        self.api.post(self.path, {"metadata": {"name": name, "annotations": {NAME: "robot"}}, "type": TYPE, **fields}).ok(201)

    def filled(self, name: str = "key") -> Object:
        """Wait until a Secret has a token."""

        def look() -> Object | None:
            secret: Object = self.api.get(f"{self.path}/{name}").ok(200).json
            return secret if "token" in (secret.get("data") or {}) else None

        return eventually(look, what=f"a token in {name}")

    def is_gone(self, name: str = "key") -> bool:
        return self.api.get(f"{self.path}/{name}").status == 404

    def status(self, token: str) -> int:
        """The status of a request with a token."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        status: int = self.api.as_token(token).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review).status
        return status


@pytest.fixture
def secrets(api: Api, ns: str) -> Secrets:
    return Secrets(api, ns)


def test_secret_gets_the_token_of_its_account(secrets: Secrets) -> None:
    secrets.create(data={"extra": "eA=="})
    secret = secrets.filled()
    assert secret["metadata"]["annotations"] == {NAME: "robot", UID: secrets.account["metadata"]["uid"]}
    assert sorted(secret["data"]) == ["ca.crt", "extra", "namespace", "token"]
    assert b64decode(secret["data"]["namespace"]).decode() == secrets.ns
    assert b64decode(secret["data"]["ca.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")
    token = b64decode(secret["data"]["token"]).decode()
    payload = token.split(".")[1]
    assert json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4))) == {
        "iss": "kubernetes/serviceaccount",
        "sub": f"system:serviceaccount:{secrets.ns}:robot",
        "kubernetes.io/serviceaccount/namespace": secrets.ns,
        "kubernetes.io/serviceaccount/secret.name": "key",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": secrets.account["metadata"]["uid"],
    }


def test_token_authenticates_its_account_until_the_secret_is_deleted(secrets: Secrets) -> None:
    secrets.create()
    token = b64decode(secrets.filled()["data"]["token"]).decode()
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}

    def review() -> Object:
        status: Object = secrets.api.post("/apis/authentication.k8s.io/v1/tokenreviews", body).ok(201).json["status"]
        return status

    status = review()
    assert status["authenticated"] is True
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{secrets.ns}", "system:authenticated"]
    user = {"username": f"system:serviceaccount:{secrets.ns}:robot", "uid": secrets.account["metadata"]["uid"], "groups": groups}
    assert status["user"] == user
    assert secrets.status(token) == 201
    secrets.api.delete(f"{secrets.path}/key").ok()
    eventually(lambda: secrets.status(token) == 401, what="the token is invalid")
    assert review() == {"user": {}, "error": "[invalid bearer token, Token has been invalidated]"}


def test_deleted_token_is_replaced_and_the_old_one_invalid(secrets: Secrets) -> None:
    secrets.create()
    old = secrets.filled()["data"]["token"]
    assert secrets.status(b64decode(old).decode()) == 201
    secrets.api.patch(f"{secrets.path}/key", {"data": {"token": None}}).ok()
    # The same claims: whether the new token differs depends on the algorithm of the key.
    assert secrets.status(b64decode(secrets.filled()["data"]["token"]).decode()) == 201


def test_secret_is_deleted_with_its_account(secrets: Secrets) -> None:
    secrets.create()
    secrets.filled()
    secrets.api.delete(f"{secrets.accounts}/robot").ok()
    eventually(secrets.is_gone, what="the Secret is deleted")


def test_secret_of_an_unknown_account_is_deleted(secrets: Secrets, api: Api) -> None:
    body = {"metadata": {"name": "lost", "annotations": {NAME: "nobody"}}, "type": TYPE}
    api.post(secrets.path, body).ok(201)
    eventually(lambda: secrets.is_gone("lost"), what="the Secret is deleted")
    wrong = {NAME: "robot", UID: "00000000-0000-0000-0000-000000000000"}
    api.post(secrets.path, {"metadata": {"name": "other", "annotations": wrong}, "type": TYPE}).ok(201)
    eventually(lambda: secrets.is_gone("other"), what="the Secret is deleted")


def test_deleted_secret_is_removed_from_its_account(secrets: Secrets, api: Api) -> None:
    secrets.create()
    secrets.filled()
    path = f"{secrets.accounts}/robot"
    api.patch(path, {"secrets": [{"name": "key"}, {"name": "other"}]}).ok()
    api.delete(f"{secrets.path}/key").ok()
    eventually(lambda: api.get(path).ok().json["secrets"] == [{"name": "other"}], what="the reference is removed")
