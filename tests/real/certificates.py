"""Temporary certificates for the real programs: an authority, a serving and a client certificate, a key for service accounts, and
the client certificate of the front proxy with an authority of its own."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM form."""

    authority: Path
    serving: Path
    serving_key: Path
    account_key: Path
    account_public: Path
    client: Path
    client_key: Path
    proxy_authority: Path
    proxy_client: Path
    proxy_client_key: Path


def make(folder: Path) -> Certificates:
    """Write a new set into `folder`; the client certificate has user `cert-admin` in group `system:masters`."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, authority = _authority()
    serving_key = ec.generate_private_key(ec.SECP256R1())
    serving = _signed(_name("kube-apiserver"), serving_key, authority_key, authority, ExtendedKeyUsageOID.SERVER_AUTH)
    client_key = ec.generate_private_key(ec.SECP256R1())
    client = _signed(_name("cert-admin", "system:masters"), client_key, authority_key, authority, ExtendedKeyUsageOID.CLIENT_AUTH)
    proxy_authority_key, proxy_authority = _authority()
    proxy_key = ec.generate_private_key(ec.SECP256R1())
    proxy_name, usage = _name("front-proxy-client"), ExtendedKeyUsageOID.CLIENT_AUTH
    proxy_client = _signed(proxy_name, proxy_key, proxy_authority_key, proxy_authority, usage)
    account_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = account_key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    pem = serialization.Encoding.PEM
    return Certificates(
        authority=_write(folder / "ca.crt", authority.public_bytes(pem)),
        serving=_write(folder / "serving.crt", serving.public_bytes(pem)),
        serving_key=_write(folder / "serving.key", _private(serving_key)),
        account_key=_write(folder / "sa.key", _private(account_key)),
        account_public=_write(folder / "sa.pub", public),
        client=_write(folder / "client.crt", client.public_bytes(pem)),
        client_key=_write(folder / "client.key", _private(client_key)),
        proxy_authority=_write(folder / "front-proxy-ca.crt", proxy_authority.public_bytes(pem)),
        proxy_client=_write(folder / "front-proxy-client.crt", proxy_client.public_bytes(pem)),
        proxy_client_key=_write(folder / "front-proxy-client.key", _private(proxy_key)),
    )


def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("sliceworks-test-authority")
    builder = _builder(name, name, key.public_key()).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return key, builder.sign(key, hashes.SHA256())


def _signed(
    name: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    authority_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    usage: x509.ObjectIdentifier,
) -> x509.Certificate:
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = _builder(name, authority.subject, key.public_key()).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.add_extension(names, critical=False).sign(authority_key, hashes.SHA256())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=7))
    )


def _name(common: str, organisation: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organisation:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    return x509.Name(parts)


def _private(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path
