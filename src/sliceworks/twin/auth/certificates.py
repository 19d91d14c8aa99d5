"""The twin's own certificate authority: the server's certificate for loopback, and certificates for clients.

Two files, readable by their owner alone, each replaced as a whole: `ca.pem` and `server.pem` hold key, certificate and, in the
first line, the time they end. Reading that line is enough to reuse them, so a restart needs no cryptography at all.
Certificates follow the wall clock, not the twin's: the other side of a TLS connection knows no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import files
from sliceworks.twin.auth.identity import AUTHENTICATED, User

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1")
_AUTHORITY_LIFE = timedelta(days=3650)
_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
_BEGIN = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of one twin."""

    authority_file: Path
    server_file: Path

    def authority(self) -> str:
        """The authority's certificate, in PEM: what a kubeconfig and `kube-root-ca.crt` carry."""
        return certificate_part(self.authority_file.read_text())


def ensure(folder: Path, *, names: Iterable[str] = (), now: datetime | None = None) -> Certificates:
    """Reuse the certificates in this folder; make what is missing or about to end."""
    now = now or datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = Certificates(folder / "ca.pem", folder / "server.pem")
    if not _usable(found.authority_file, now):
        # A server certificate of the old authority must not outlive it, not even when we are killed between the two writes.
        found.server_file.unlink(missing_ok=True)
        _write(found.authority_file, _make_authority(now), now + _AUTHORITY_LIFE)
    if not _usable(found.server_file, now):
        _write(found.server_file, _make_server(found, tuple(names), now), now + _LIFE)
    return found


def server_context(certificates: Certificates) -> ssl.SSLContext:
    """TLS for the server. A client may show a certificate of our authority; it need not."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificates.server_file)
    context.load_verify_locations(cadata=certificates.authority())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context


def client_certificate(certificates: Certificates, user: str, groups: Iterable[str] = (), *, now: datetime | None = None) -> str:
    """Key and certificate, in one PEM text, for a client that is this user in these groups."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = now or datetime.now(UTC)
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    key = _new_key()
    builder = _builder(subject, key.public_key(), now, _LIFE)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    return _pem(key, _signed(certificates, builder))


def user_of(peer: Mapping[str, Any] | None) -> User | None:
    """The user of a verified client certificate, as `ssl` describes one: the common name, with the organizations as groups."""
    fields = [pair for part in (peer or {}).get("subject", ()) for pair in part]
    names = [value for key, value in fields if key == "commonName"]
    if not names or not names[-1]:
        return None
    groups = tuple(value for key, value in fields if key == "organizationName")
    return User(names[-1], groups=(*groups, AUTHENTICATED))


def certificate_part(text: str) -> str:
    """The first certificate of a PEM text that may hold a key as well."""
    end = "-----END CERTIFICATE-----"
    start = text.index(_BEGIN)
    return text[start : text.index(end, start) + len(end)] + "\n"


def _usable(file: Path, now: datetime) -> bool:
    try:
        with file.open() as lines:
            end = datetime.fromisoformat(lines.readline().removeprefix("ends ").strip())
    except (OSError, ValueError):
        return False
    return end - now > _RENEW_BEFORE


def _write(file: Path, text: str, end: datetime) -> None:
    # Nobody waits for the disk: a file that a power cut left empty is not usable, and made again.
    files.put(file, f"ends {end.isoformat()}\n{text}".encode(), mode=files.PRIVATE)


def _make_authority(now: datetime) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    key = _new_key()
    # Each authority has a name of its own, so that a client with an old one is told of an unknown issuer, not a bad signature.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"sliceworks-ca-{int(now.timestamp())}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, key.public_key(), now, _AUTHORITY_LIFE).issuer_name(name).add_extension(usage, critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pem(key, builder.sign(key, SHA256()))


def _make_server(certificates: Certificates, names: tuple[str, ...], now: datetime) -> str:
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = _new_key()
    known = [x509.DNSName(name) for name in (*NAMES, *names)] + [x509.IPAddress(ip_address(text)) for text in ADDRESSES]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    builder = _builder(subject, key.public_key(), now, _LIFE)
    builder = builder.add_extension(x509.SubjectAlternativeName(known), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return _pem(key, _signed(certificates, builder))


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(subject: x509.Name, key: Any, now: datetime, life: timedelta) -> x509.CertificateBuilder:
    from cryptography import x509

    # Clocks differ a little from machine to machine: a certificate is good from an hour ago.
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + life)


def _signed(certificates: Certificates, builder: x509.CertificateBuilder) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = certificates.authority_file.read_bytes()
    authority = x509.load_pem_x509_certificate(certificate_part(text.decode()).encode())
    key = load_pem_private_key(text[: text.index(_BEGIN.encode())].partition(b"\n")[2], password=None)
    assert isinstance(key, EllipticCurvePrivateKey)
    builder = builder.issuer_name(authority.subject).add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(issuer, critical=False).sign(key, SHA256())


def _pem(key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (secret + certificate.public_bytes(Encoding.PEM)).decode()
