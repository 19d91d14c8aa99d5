"""Service account tokens: the ES256 issuer and the TokenRequest subresource."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock, files
from sliceworks.base.errors import BadRequest, Conflict, NotFound, SliceworksError
from sliceworks.schemas.field_errors import invalid, new_invalid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from sliceworks.twin.apiserver.auth.authentication import Get

ISSUER = "https://kubernetes.default.svc"
LEGACY_ISSUER = "kubernetes/serviceaccount"
"""The issuer of tokens in Secrets, which do not expire."""
LEGACY_PREFIX = "kubernetes.io/serviceaccount/"
"""The beginning of the names of their claims."""
_COORDINATE_BYTES = 32
_GROUP = "authentication.k8s.io"
_PROJECTED_SECONDS = 3607
_YEAR = 365 * 24 * 3600


class TokenIssuer:
    """Signs and verifies tokens. Without a file, the key lasts as long as the process."""

    def __init__(self, file: Path | None = None, name: str = ISSUER) -> None:
        self.name = name
        self._file = file
        self._loaded: tuple[EllipticCurvePrivateKey, str] | None = None

    def sign(self, claims: dict[str, Any], issuer: str = "") -> str:
        """A token with these claims; `iss` is added, by default the name of this issuer."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        key, identifier = self._key()
        header = orjson.dumps({"alg": "ES256", "kid": identifier})
        payload = f"{_encode(header)}.{_encode(orjson.dumps({**claims, 'iss': issuer or self.name}, option=orjson.OPT_SORT_KEYS))}"
        r, s = decode_dss_signature(key.sign(payload.encode(), ECDSA(SHA256())))
        return f"{payload}.{_encode(r.to_bytes(_COORDINATE_BYTES, 'big') + s.to_bytes(_COORDINATE_BYTES, 'big'))}"

    def read(self, token: str) -> dict[str, Any] | None:
        """The claims of a token of this issuer; None for other tokens. Expiry is not checked."""
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            header, claims = orjson.loads(_decode(parts[0])), orjson.loads(_decode(parts[1]))
            signature = _decode(parts[2])
        except (ValueError, Base64Error):
            return None
        if not isinstance(header, dict) or not isinstance(claims, dict) or claims.get("iss") not in {self.name, LEGACY_ISSUER}:
            return None
        well_formed = header.get("alg") == "ES256" and len(signature) == 2 * _COORDINATE_BYTES
        return claims if well_formed and self._verifies(f"{parts[0]}.{parts[1]}".encode(), signature) else None

    def jwks(self) -> dict[str, Any]:
        """The public key, as `/openid/v1/jwks` serves it."""
        key, identifier = self._key()
        numbers = key.public_key().public_numbers()
        point = {
            "x": _encode(numbers.x.to_bytes(_COORDINATE_BYTES, "big")),
            "y": _encode(numbers.y.to_bytes(_COORDINATE_BYTES, "big")),
        }
        return {"keys": [{"use": "sig", "kty": "EC", "kid": identifier, "crv": "P-256", "alg": "ES256", **point}]}

    def configuration(self, address: str) -> dict[str, Any]:
        """The document at `/.well-known/openid-configuration` of a server at this address."""
        return {
            "issuer": self.name,
            "jwks_uri": f"{address}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def _verifies(self, text: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        r, s = int.from_bytes(signature[:_COORDINATE_BYTES], "big"), int.from_bytes(signature[_COORDINATE_BYTES:], "big")
        try:
            self._key()[0].public_key().verify(encode_dss_signature(r, s), text, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True

    def _key(self) -> tuple[EllipticCurvePrivateKey, str]:
        if self._loaded is None:
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

            key = _load(self._file) if self._file and self._file.exists() else _create(self._file)
            public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            self._loaded = key, _encode(sha256(public).digest())
        return self._loaded


def _load(file: Path) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise SliceworksError(f"{file}: not a private key", hint=_KEY_HINT) from error
    if not isinstance(key, EllipticCurvePrivateKey):
        raise SliceworksError(f"{file}: not an elliptic curve key", hint=_KEY_HINT)
    return key


_KEY_HINT = "delete the file; the next start creates a new key, and all tokens of service accounts become invalid"


def _create(file: Path | None) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        files.write_atomic(file, written, mode=files.PRIVATE_MODE, fsync=True)
    return key


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def secret_token(account: Mapping[str, Any], secret: Mapping[str, Any], issuer: TokenIssuer) -> str:
    """The token of a service account that is stored in a Secret."""
    metadata = account["metadata"]
    claims = {
        "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        f"{LEGACY_PREFIX}namespace": metadata["namespace"],
        f"{LEGACY_PREFIX}secret.name": secret["metadata"]["name"],
        f"{LEGACY_PREFIX}service-account.name": metadata["name"],
        f"{LEGACY_PREFIX}service-account.uid": metadata["uid"],
    }
    return issuer.sign(claims, LEGACY_ISSUER)


def token_request(body: dict[str, Any], namespace: str, name: str, issuer: TokenIssuer, get: Get) -> dict[str, Any]:
    """Issue the token of a TokenRequest for a service account."""
    metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
    account = _account(metadata, namespace, name, get)
    uid = account["metadata"].get("uid", "")
    audiences = list(spec.get("audiences") or (issuer.name,))
    seconds = spec.get("expirationSeconds") or 3600
    _check_duration(seconds)
    bound = _bound(spec.get("boundObjectRef"), namespace, name, get)
    now = clock.now()
    claims = _claims(namespace, name, uid, bound, audiences)
    validity = seconds
    if "pod" in bound and seconds == _PROJECTED_SECONDS and audiences == [issuer.name]:
        # The token that kubelets request: valid for a year, for programs that never reload it.
        validity = _YEAR
        claims["kubernetes.io"]["warnafter"] = int(now.timestamp()) + seconds
    token = issuer.sign(
        {**claims, "iat": int(now.timestamp()), "nbf": int(now.timestamp()), "exp": int(now.timestamp()) + validity}
    )
    expiry = now + timedelta(seconds=seconds)
    return {
        "kind": "TokenRequest",
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {**metadata, "name": name, "namespace": namespace, "uid": uid, "creationTimestamp": clock.timestamp()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")},
        "status": {"token": token, "expirationTimestamp": clock.rfc3339(expiry)},
    }


def _account(metadata: Mapping[str, Any], namespace: str, name: str, get: Get) -> Mapping[str, Any]:
    for key, expected in (("name", name), ("namespace", namespace)):
        if metadata.get(key, expected) not in (expected, ""):
            error = invalid(f"metadata.{key}", metadata[key], f"must match the service account {key} if specified")
            raise new_invalid(_GROUP, "TokenRequest", name, [error])
    account = get("/serviceaccounts", namespace, name)
    if account is None:
        raise NotFound(f'serviceaccounts "{name}" not found', details={"name": name, "kind": "serviceaccounts"})
    uid = account["metadata"].get("uid", "")
    if metadata.get("uid") and metadata["uid"] != uid:
        reason = f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account ({uid})"
        raise _conflict(f"TokenRequest.{_GROUP}", name, reason, {"name": name, "group": _GROUP, "kind": "TokenRequest"})
    return account


def _check_duration(seconds: int) -> None:
    problem = ""
    if seconds < 600:
        problem = "may not specify a duration less than 10 minutes"
    elif seconds > 1 << 32:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        error = new_invalid(_GROUP, "TokenRequest", "", [invalid("spec.expirationSeconds", seconds, problem)])
        (error.details or {}).pop("name", None)
        raise error


def _bound(ref: Mapping[str, Any] | None, namespace: str, account: str, get: Get) -> dict[str, dict[str, str]]:
    """The claims of the object that a token is bound to."""
    if ref is None:
        return {}
    kind, version, name = ref.get("kind", ""), ref.get("apiVersion", ""), ref.get("name", "")
    resources = {"Pod": ("pods", namespace), "Secret": ("secrets", namespace), "Node": ("nodes", "")}
    group, _, number = version.rpartition("/")
    if group or kind not in resources:
        raise BadRequest(f"cannot bind token to object of type {group}/{number}, Kind={kind}")
    plural, scope = resources[kind]
    obj = get(f"/{plural}", scope, name)
    if obj is None:
        raise NotFound(f'{plural} "{name}" not found', details={"name": name, "kind": plural})
    spec = obj.get("spec") or {}
    if kind == "Pod" and spec.get("serviceAccountName", "") != account:
        raise BadRequest(f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.')
    uid = obj["metadata"].get("uid", "")
    if ref.get("uid") and ref["uid"] != uid:
        reason = f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record."
        reason += " The object might have been deleted and then recreated"
        raise _conflict(kind, name, reason, {"name": name, "kind": kind})
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


def _conflict(kind: str, name: str, reason: str, details: Mapping[str, str]) -> Conflict:
    return Conflict(f'Operation cannot be fulfilled on {kind} "{name}": {reason}', details=details)
