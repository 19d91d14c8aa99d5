"""CertificateSigningRequests: the request and its signer on create, conditions and the certificate on updates."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.validation.error_list import dns1123_label_errors, dns1123_subdomain_errors, list_items

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography import x509

    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_MIN_SECONDS = 600
_MAX_DOMAIN_LENGTH, _MAX_SIGNER_LENGTH = 253, 571
_TRUE_ONLY = ("Approved", "Denied", "Failed")
APPROVALS = ("Approved", "Denied")
_CONDITIONS, _CERTIFICATE = "status.conditions", "status.certificate"
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_pem_blocks = re.compile(
    rb"-----BEGIN (?P<type>[^\n-]*)-----\s*\n(?P<headers>(?:[^\n:]+:[^\n]*\n)*)(?P<body>[A-Za-z0-9+/=\s]*)-----END (?P=type)-----"
).finditer


def any_name_errors(_name: str) -> list[str]:
    """A request may have any name."""
    return []


def validate_request(errors: ErrorList, obj: Json) -> None:
    """Validate a CertificateSigningRequest as it is created."""
    spec = obj.get("spec") or {}
    if problem := _request_problem(spec.get("request") or ""):
        errors.invalid("spec.request", spec.get("request"), problem)
    errors.check_required(spec, "spec", "usages")
    seen: set[str] = set()
    for usage, path in list_items(spec, "spec", "usages"):
        if usage not in _USAGES:
            errors.not_supported(path, usage, _USAGES)
        errors.check_unique(seen, usage, path)
    signer = spec.get("signerName") or ""
    if signer == _LEGACY_SIGNER:
        errors.invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version")
    else:
        _validate_signer(errors, signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_SECONDS:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)")


def parse_request(request: str) -> x509.CertificateSigningRequest:
    """The PKCS#10 request in base64-encoded PEM. Raises ValueError."""
    from cryptography import x509

    data = base64.b64decode(request)
    block = next(_pem_blocks(data), None)
    if block is None or block["type"] != b"CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    return x509.load_der_x509_csr(base64.b64decode(block["body"]))


def _request_problem(request: str) -> str:
    try:
        parsed = parse_request(request)
        return "" if parsed.is_signature_valid else "x509: ECDSA verification failure"
    except (ValueError, binascii.Error) as error:
        return str(error)


def _validate_signer(errors: ErrorList, signer: str, path: str) -> None:
    if not signer:
        errors.required(path)
        return
    domain, *rest = signer.split("/")
    if len(rest) != 1:
        errors.invalid(path, signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
        return
    if len(domain) > _MAX_DOMAIN_LENGTH:
        errors.too_long(path, _MAX_DOMAIN_LENGTH)
    _validate_segment(errors, domain, path, dns1123_label_errors)
    if "." not in domain:
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots")
    _validate_segment(errors, rest[0], path, dns1123_subdomain_errors)
    if len(signer) > _MAX_SIGNER_LENGTH:
        errors.too_long(path, _MAX_SIGNER_LENGTH)


def _validate_segment(errors: ErrorList, segment: str, path: str, rule: Callable[[str], list[str]]) -> None:
    """Report the first label of a segment that is not valid."""
    for label in segment.split("."):
        if problems := rule(label):
            for problem in problems:
                errors.invalid(path, segment, f'validating label "{label}": {problem}')
            return


def validate_status(errors: ErrorList, new: Json, old: Json) -> None:
    """Validate an update through the status subresource, which may not approve or deny."""
    validate_approval(errors, new, old, addable=())


def validate_approval(errors: ErrorList, new: Json, old: Json, addable: tuple[str, ...] = APPROVALS) -> None:
    """Validate an update through the approval subresource."""
    _validate_conditions(errors, new, old)
    for kind in _TRUE_ONLY:
        if len(find_conditions(new, kind)) < len(find_conditions(old, kind)):
            errors.forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"')
    for kind in APPROVALS:
        if kind not in addable and len(find_conditions(new, kind)) > len(find_conditions(old, kind)):
            errors.forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"')
    certificate, before = ((obj.get("status") or {}).get("certificate") for obj in (new, old))
    if certificate != before:
        if problem := _certificate_problem(certificate or ""):
            errors.invalid(_CERTIFICATE, "<certificate data>", problem)
        if before:
            errors.forbidden(_CERTIFICATE, "updates may not modify existing certificate content")


def _validate_conditions(errors: ErrorList, new: Json, old: Json) -> None:
    seen: set[str] = set()
    both_before = all(find_conditions(old, kind) for kind in APPROVALS)
    for condition, path in list_items(new.get("status") or {}, "status", "conditions"):
        kind = condition.get("type") or ""
        errors.check_required(condition, path, "type")
        errors.check_enum(condition, path, "status", ("True",) if kind in _TRUE_ONLY else ("False", "True", "Unknown"))
        if kind in APPROVALS and not both_before and seen & (set(APPROVALS) - {kind}):
            errors.invalid(_CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive")
        errors.check_unique(seen, kind, f"{path}.type")


def _certificate_problem(certificate: str) -> str:
    if not certificate:
        return ""
    from cryptography import x509

    try:
        blocks = list(_pem_blocks(base64.b64decode(certificate)))
        for block in blocks:
            if block["type"] != b"CERTIFICATE":
                return f'only CERTIFICATE PEM blocks are allowed, found "{block["type"].decode(errors="replace")}"'
            if block["headers"]:
                return "no PEM block headers are permitted"
            x509.load_der_x509_certificate(base64.b64decode(block["body"]))
    except (ValueError, binascii.Error) as error:
        return str(error)
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


def find_conditions(obj: Json, kind: str | None) -> list[Json]:
    """The conditions of a type, which need not be unique."""
    return [item for item in (obj.get("status") or {}).get("conditions") or () if item.get("type") == kind]
