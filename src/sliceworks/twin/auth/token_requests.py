"""The `token` subresource of service accounts: a TokenRequest answered with a signed token."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, Conflict, NotFound
from sliceworks.schemas.field_errors import invalid, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.auth.jwt import Issuer
    from sliceworks.twin.auth.tokens import Get

_GROUP = "authentication.k8s.io"
_PROJECTED = 3607
_YEAR = 365 * 24 * 3600


def token_request(body: dict[str, Any], namespace: str, name: str, issuer: Issuer, get: Get) -> dict[str, Any]:
    """Issue the token that a TokenRequest for this service account asks for."""
    metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
    account = _account(metadata, namespace, name, get)
    uid = account["metadata"].get("uid", "")
    audiences = list(spec.get("audiences") or (issuer.name,))
    seconds = spec.get("expirationSeconds") or 3600
    _check_duration(seconds)
    bound = _bound(spec.get("boundObjectRef"), namespace, name, get)
    now = clock.now()
    claims = _claims(namespace, name, uid, bound, audiences)
    life = seconds
    if "pod" in bound and seconds == _PROJECTED and audiences == [issuer.name]:
        # What kubelets ask for: good for a year, so that programs that never read a token again still work.
        life = _YEAR
        claims["kubernetes.io"]["warnafter"] = int(now.timestamp()) + seconds
    token = issuer.sign({**claims, "iat": int(now.timestamp()), "nbf": int(now.timestamp()), "exp": int(now.timestamp()) + life})
    end = now + timedelta(seconds=seconds)
    return {
        "kind": "TokenRequest",
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {**metadata, "name": name, "namespace": namespace, "uid": uid, "creationTimestamp": clock.timestamp()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")},
        "status": {"token": token, "expirationTimestamp": clock.rfc3339(end)},
    }


def _account(metadata: Mapping[str, Any], namespace: str, name: str, get: Get) -> Mapping[str, Any]:
    for key, wanted in (("name", name), ("namespace", namespace)):
        if metadata.get(key, wanted) not in (wanted, ""):
            found = invalid(f"metadata.{key}", metadata[key], f"must match the service account {key} if specified")
            raise refusal(_GROUP, "TokenRequest", name, [found])
    account = get("/serviceaccounts", namespace, name)
    if account is None:
        raise NotFound(f'serviceaccounts "{name}" not found', details={"name": name, "kind": "serviceaccounts"})
    uid = account["metadata"].get("uid", "")
    if metadata.get("uid") and metadata["uid"] != uid:
        why = f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account ({uid})"
        raise _conflict(f"TokenRequest.{_GROUP}", name, why, {"name": name, "group": _GROUP, "kind": "TokenRequest"})
    return account


def _check_duration(seconds: int) -> None:
    why = ""
    if seconds < 600:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > 1 << 32:
        why = "may not specify a duration larger than 2^32 seconds"
    if why:
        refused = refusal(_GROUP, "TokenRequest", "", [invalid("spec.expirationSeconds", seconds, why)])
        (refused.details or {}).pop("name", None)
        raise refused


def _bound(ref: Mapping[str, Any] | None, namespace: str, account: str, get: Get) -> dict[str, dict[str, str]]:
    """The claims about the object that a token is bound to."""
    if ref is None:
        return {}
    kind, version, name = ref.get("kind", ""), ref.get("apiVersion", ""), ref.get("name", "")
    homes = {"Pod": ("pods", namespace), "Secret": ("secrets", namespace), "Node": ("nodes", "")}
    group, _, number = version.rpartition("/")
    if group or kind not in homes:
        raise BadRequest(f"cannot bind token to object of type {group}/{number}, Kind={kind}")
    plural, home = homes[kind]
    found = get(f"/{plural}", home, name)
    if found is None:
        raise NotFound(f'{plural} "{name}" not found', details={"name": name, "kind": plural})
    spec = found.get("spec") or {}
    if kind == "Pod" and spec.get("serviceAccountName", "") != account:
        raise BadRequest(f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.')
    uid = found["metadata"].get("uid", "")
    if ref.get("uid") and ref["uid"] != uid:
        why = f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record."
        why += " The object might have been deleted and then recreated"
        raise _conflict(kind, name, why, {"name": name, "kind": kind})
    claims = {kind.lower(): {"name": name, "uid": uid}}
    if kind == "Pod" and spec.get("nodeName"):
        node = get("/nodes", "", spec["nodeName"])
        claims["node"] = {"name": spec["nodeName"], **({"uid": node["metadata"].get("uid", "")} if node else {})}
    return claims


def _claims(namespace: str, name: str, uid: str, bound: Mapping[str, Any], audiences: list[str]) -> dict[str, Any]:
    return {
        "aud": audiences,
        "sub": f"system:serviceaccount:{namespace}:{name}",
        "jti": clock.uid(),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}, **bound},
    }


def _conflict(kind: str, name: str, why: str, details: Mapping[str, str]) -> Conflict:
    return Conflict(f'Operation cannot be fulfilled on {kind} "{name}": {why}', details=details)
