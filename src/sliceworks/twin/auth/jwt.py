"""Service-account tokens as signed text: JSON web tokens with ES256. The key is made with the first token and kept in a file."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import files

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ISSUER = "https://kubernetes.default.svc"
_SIZE = 32


class Issuer:
    """Signs claims and reads back what it signed. Without a file the key lives as long as the process."""

    def __init__(self, file: Path | None = None, name: str = ISSUER) -> None:
        self.name = name
        self._file = file
        self._loaded: tuple[EllipticCurvePrivateKey, str] | None = None

    def sign(self, claims: dict[str, Any]) -> str:
        """The token that carries these claims; `iss` is added."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        key, identifier = self._key()
        header = orjson.dumps({"alg": "ES256", "kid": identifier})
        text = f"{_encoded(header)}.{_encoded(orjson.dumps({**claims, 'iss': self.name}, option=orjson.OPT_SORT_KEYS))}"
        r, s = decode_dss_signature(key.sign(text.encode(), ECDSA(SHA256())))
        return f"{text}.{_encoded(r.to_bytes(_SIZE, 'big') + s.to_bytes(_SIZE, 'big'))}"

    def read(self, token: str) -> dict[str, Any] | None:
        """The claims of a token that this issuer signed; None for anything else. Their times are not looked at."""
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            header, claims = orjson.loads(_decoded(parts[0])), orjson.loads(_decoded(parts[1]))
            signature = _decoded(parts[2])
        except (ValueError, Base64Error):
            return None
        if not isinstance(header, dict) or not isinstance(claims, dict) or claims.get("iss") != self.name:
            return None
        good = header.get("alg") == "ES256" and len(signature) == 2 * _SIZE
        return claims if good and self._verifies(f"{parts[0]}.{parts[1]}".encode(), signature) else None

    def jwks(self) -> dict[str, Any]:
        """The public key, as `/openid/v1/jwks` serves it."""
        key, identifier = self._key()
        numbers = key.public_key().public_numbers()
        point = {"x": _encoded(numbers.x.to_bytes(_SIZE, "big")), "y": _encoded(numbers.y.to_bytes(_SIZE, "big"))}
        return {"keys": [{"use": "sig", "kty": "EC", "kid": identifier, "crv": "P-256", "alg": "ES256", **point}]}

    def configuration(self, address: str) -> dict[str, Any]:
        """What `/.well-known/openid-configuration` serves, for a server at this address."""
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

        r, s = int.from_bytes(signature[:_SIZE], "big"), int.from_bytes(signature[_SIZE:], "big")
        try:
            self._key()[0].public_key().verify(encode_dss_signature(r, s), text, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True

    def _key(self) -> tuple[EllipticCurvePrivateKey, str]:
        if self._loaded is None:
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

            key = _load(self._file) if self._file and self._file.exists() else _make(self._file)
            public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            self._loaded = key, _encoded(sha256(public).digest())
        return self._loaded


def _load(file: Path) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(file.read_bytes(), password=None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return key


def _make(file: Path | None) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        files.put(file, written, mode=files.PRIVATE, lasting=True)
    return key


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
