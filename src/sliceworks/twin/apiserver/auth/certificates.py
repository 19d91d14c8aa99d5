"""The twin's certificate authority, serving certificate and client certificates.

Private files, replaced atomically: `ca.pem` and `server.pem` hold a key, a certificate and, in the first line, its expiry.
`front-proxy-ca.pem` and `front-proxy-client.pem` are those with which the API server proves to aggregated APIs that it has
authenticated a user; a client certificate of `ca.pem` must not pass for one.
That line is enough to reuse them, so a restart does not load the cryptography library. Certificates use the wall clock, not the
twin's: the TLS peer does not know the twin's.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import files
from sliceworks.base.errors import SliceworksError
from sliceworks.twin.apiserver.auth.authentication import AUTHENTICATED, User

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator, Mapping
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
PROXY_CLIENT = "front-proxy-client"
_AUTHORITY_VALIDITY = timedelta(days=3650)
_VALIDITY = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
_BEGIN = "-----BEGIN CERTIFICATE-----"


class FrontProxy(NamedTuple):
    """The CA certificate of the front proxy in PEM, and the file of its client certificate with the key."""

    authority: str
    client_file: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificate files of one twin."""

    authority_file: Path
    server_file: Path

    def authority(self) -> str:
        """The CA certificate in PEM, as kubeconfig and `kube-root-ca.crt` contain it."""
        with _translate_errors(self.authority_file):
            return certificate_part(self.authority_file.read_text())

    @property
    def proxy_authority_file(self) -> Path:
        return self.authority_file.with_name("front-proxy-ca.pem")

    @property
    def proxy_client_file(self) -> Path:
        return self.authority_file.with_name("front-proxy-client.pem")

    def front_proxy(self) -> FrontProxy:
        """What the API server needs as a front proxy."""
        with _translate_errors(self.proxy_authority_file):
            return FrontProxy(certificate_part(self.proxy_authority_file.read_text()), self.proxy_client_file)


def ensure(folder: Path, *, names: Iterable[str] = (), now: datetime | None = None) -> Certificates:
    """Reuse the certificates in this folder; create those that are missing or expire soon."""
    now = now or datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths = Certificates(folder / "ca.pem", folder / "server.pem")
    _ensure_authority(paths.authority_file, paths.server_file, "sliceworks-ca", now)
    if not _is_valid(paths.server_file, now):
        _write(paths.server_file, _create_server(paths, tuple(names), now), now + _VALIDITY)
    _ensure_authority(paths.proxy_authority_file, paths.proxy_client_file, "front-proxy-ca", now)
    if not _is_valid(paths.proxy_client_file, now):
        _write(paths.proxy_client_file, _create_client(paths.proxy_authority_file, PROXY_CLIENT, (), now), now + _VALIDITY)
    return paths


def _ensure_authority(file: Path, issued: Path, name: str, now: datetime) -> None:
    if not _is_valid(file, now):
        # A crash between the two writes must not leave a certificate of the old authority.
        issued.unlink(missing_ok=True)
        _write(file, _create_authority(name, now), now + _AUTHORITY_VALIDITY)


def server_context(certificates: Certificates) -> ssl.SSLContext:
    """The TLS context of the server. Client certificates of the authority are optional."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with _translate_errors(certificates.server_file):
        context.load_cert_chain(certificates.server_file)
    with _translate_errors(certificates.authority_file):
        context.load_verify_locations(cadata=certificates.authority())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context


def client_certificate(certificates: Certificates, user: str, groups: Iterable[str] = (), *, now: datetime | None = None) -> str:
    """Key and certificate in PEM of a client, for a user in groups."""
    return _create_client(certificates.authority_file, user, groups, now or datetime.now(UTC))


def _create_client(authority: Path, user: str, groups: Iterable[str], now: datetime) -> str:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    key = _new_key()
    builder = _builder(subject, key.public_key(), now, _VALIDITY)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    return _pem(key, _sign(authority, builder))


def user_from_certificate(peer: Mapping[str, Any] | None) -> User | None:
    """The user of a verified client certificate in the form of `ssl`: the common name, with the organizations as groups."""
    fields = [pair for part in (peer or {}).get("subject", ()) for pair in part]
    names = [value for key, value in fields if key == "commonName"]
    if not names or not names[-1]:
        return None
    groups = tuple(value for key, value in fields if key == "organizationName")
    return User(names[-1], groups=(*groups, AUTHENTICATED))


def certificate_part(pem: str) -> str:
    """The first certificate of a PEM file, which may also contain a key."""
    end = "-----END CERTIFICATE-----"
    start = pem.index(_BEGIN)
    return pem[start : pem.index(end, start) + len(end)] + "\n"


@contextmanager
def _translate_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SliceworksError(
            f"{file}: not a certificate with its key", hint=f"delete {file.name}; the next start creates a new one"
        ) from error


def _is_valid(file: Path, now: datetime) -> bool:
    try:
        with file.open() as lines:
            expiry = datetime.fromisoformat(lines.readline().removeprefix("ends ").strip())
    except (OSError, ValueError):
        return False
    return expiry - now > _RENEW_BEFORE


def _write(file: Path, pem: str, expiry: datetime) -> None:
    files.write_atomic(file, f"ends {expiry.isoformat()}\n{pem}".encode(), mode=files.PRIVATE_MODE, fsync=True)


def _create_authority(name: str, now: datetime) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    key = _new_key()
    # A new name per authority: clients with an old CA get "unknown issuer", not "bad signature".
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name}-{int(now.timestamp())}")])
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
    builder = _builder(subject, key.public_key(), now, _AUTHORITY_VALIDITY).issuer_name(subject).add_extension(usage, critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pem(key, builder.sign(key, SHA256()))


def _create_server(certificates: Certificates, names: tuple[str, ...], now: datetime) -> str:
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = _new_key()
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in (*NAMES, *names)]
    alternatives += [x509.IPAddress(ip_address(address)) for address in ADDRESSES]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    builder = _builder(subject, key.public_key(), now, _VALIDITY)
    builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return _pem(key, _sign(certificates.authority_file, builder))


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(subject: x509.Name, key: Any, now: datetime, validity: timedelta) -> x509.CertificateBuilder:
    from cryptography import x509

    # Tolerate clock skew: a certificate is valid from an hour ago.
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + validity)


def _sign(authority_file: Path, builder: x509.CertificateBuilder) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    with _translate_errors(authority_file):
        pem = authority_file.read_bytes()
        authority = x509.load_pem_x509_certificate(certificate_part(pem.decode()).encode())
        key = load_pem_private_key(pem[: pem.index(_BEGIN.encode())].partition(b"\n")[2], password=None)
    assert isinstance(key, EllipticCurvePrivateKey)
    builder = builder.issuer_name(authority.subject).add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(issuer, critical=False).sign(key, SHA256())


def _pem(key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (secret + certificate.public_bytes(Encoding.PEM)).decode()
