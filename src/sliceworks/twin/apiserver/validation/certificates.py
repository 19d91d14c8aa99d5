"""CertificateSigningRequests: the request and its signer on create, conditions and the certificate on updates."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.schemas.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from sliceworks.twin.apiserver.validation.field_checks import Errors, dns1123_label_errors, dns1123_subdomain_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cryptography import x509

    from sliceworks.twin.apiserver.validation.defaults import Json

_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_MIN_SECONDS = 600
_DOMAIN_LENGTH, _SIGNER_LENGTH = 253, 571
_TRUE_ONLY = ("Approved", "Denied", "Failed")
_APPROVALS = ("Approved", "Denied")
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


def request_errors(obj: Json) -> Errors:
    """Errors of a CertificateSigningRequest as it is created."""
    errors: Errors = []
    spec = obj.get("spec") or {}
    if problem := _request_problem(spec.get("request") or ""):
        errors.append(invalid("spec.request", spec.get("request"), problem))
    usages = spec.get("usages") or []
    if not usages:
        errors.append(required("spec.usages"))
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            errors.append(not_supported(f"spec.usages[{index}]", usage, _USAGES))
        if usage in usages[:index]:
            errors.append(duplicate(f"spec.usages[{index}]", usage))
    signer = spec.get("signerName") or ""
    if signer == _LEGACY_SIGNER:
        errors.append(invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version"))
    else:
        _signer(errors, signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_SECONDS:
        message = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, message))
    return errors


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


def _signer(errors: Errors, signer: str, path: str) -> None:
    if not signer:
        errors.append(required(path))
        return
    domain, *rest = signer.split("/")
    if len(rest) != 1:
        errors.append(invalid(path, signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'"))
        return
    if len(domain) > _DOMAIN_LENGTH:
        errors.append(too_long(path, _DOMAIN_LENGTH))
    errors += _label_errors(domain, path, dns1123_label_errors)
    if "." not in domain:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    errors += _label_errors(rest[0], path, dns1123_subdomain_errors)
    if len(signer) > _SIGNER_LENGTH:
        errors.append(too_long(path, _SIGNER_LENGTH))


def _label_errors(segment: str, path: str, rule: Callable[[str], list[str]]) -> Errors:
    """The errors of the first invalid label."""
    for label in segment.split("."):
        if problems := rule(label):
            return [invalid(path, segment, f'validating label "{label}": {problem}') for problem in problems]
    return []


def keep_request(new: Json, old: Json, _cluster: object) -> None:
    """A request is immutable except through its subresources."""
    new["spec"] = old.get("spec") or {}
    new["status"] = old.get("status") or {}


def prepare_approval(new: Json, old: Json) -> None:
    """The approval subresource changes conditions only."""
    _set_times(new, old)
    status = {key: value for key, value in (old.get("status") or {}).items() if key != "conditions"}
    conditions = (new.get("status") or {}).get("conditions")
    new["spec"] = old.get("spec") or {}
    new["status"] = {**status, "conditions": conditions} if conditions else status


def prepare_status(new: Json, old: Json) -> None:
    """The status subresource keeps the approval."""
    new["spec"] = old.get("spec") or {}
    conditions = (new.get("status") or {}).get("conditions") or []
    for kind in _APPROVALS:
        before = _find(old, kind)
        places = [index for index, condition in enumerate(conditions) if condition.get("type") == kind]
        if len(before) == len(places):
            for place, condition in zip(places, before, strict=True):
                conditions[place] = dict(condition)
    _set_times(new, old)


def _set_times(new: Json, old: Json) -> None:
    now = clock.timestamp()
    for condition in (new.get("status") or {}).get("conditions") or ():
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = (
                before["lastTransitionTime"]
                for before in _find(old, condition.get("type"))
                if before.get("status") == condition.get("status") and before.get("lastTransitionTime")
            )
            condition["lastTransitionTime"] = next(same, now)


def approval_errors(new: Json, old: Json) -> Errors:
    """Errors of an update through the approval subresource."""
    return _update_errors(new, old, "approval")


def status_errors(new: Json, old: Json) -> Errors:
    """Errors of an update through the status subresource."""
    return _update_errors(new, old, "status")


def _update_errors(new: Json, old: Json, subresource: str) -> Errors:
    errors = [*_condition_errors(new, old)]
    errors += [
        forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"')
        for kind in _TRUE_ONLY
        if len(_find(new, kind)) < len(_find(old, kind))
    ]
    if subresource != "approval":
        errors += [
            forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"')
            for kind in _APPROVALS
            if len(_find(new, kind)) > len(_find(old, kind))
        ]
    certificate, before = ((obj.get("status") or {}).get("certificate") for obj in (new, old))
    if certificate != before:
        if problem := _certificate_problem(certificate or ""):
            errors.append(invalid(_CERTIFICATE, "<certificate data>", problem))
        if before:
            errors.append(forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))
    return errors


def _condition_errors(new: Json, old: Json) -> Iterator[FieldError]:
    seen: set[str] = set()
    both_before = all(_find(old, kind) for kind in _APPROVALS)
    for index, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        path, kind, status = f"{_CONDITIONS}[{index}]", condition.get("type") or "", condition.get("status") or ""
        if not kind:
            yield required(f"{path}.type")
        allowed = ("True",) if kind in _TRUE_ONLY else ("False", "True", "Unknown")
        if not status:
            yield required(f"{path}.status")
        elif status not in allowed:
            yield not_supported(f"{path}.status", status, allowed)
        if kind in _APPROVALS and not both_before and seen & (set(_APPROVALS) - {kind}):
            yield invalid(_CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)


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


def _find(obj: Json, kind: str | None) -> list[Json]:
    return [item for item in (obj.get("status") or {}).get("conditions") or () if item.get("type") == kind]
