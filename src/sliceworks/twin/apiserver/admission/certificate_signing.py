"""CertificateApproval, CertificateSigning and CertificateSubjectRestriction, and the requester of a CertificateSigningRequest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.auth.rbac import Attributes
from sliceworks.twin.apiserver.validation.certificate_signing_request import parse_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission, Obj
    from sliceworks.twin.apiserver.auth.rbac import Rbac

KEY = "certificates.k8s.io/certificatesigningrequests"
_GROUP, _, _ = KEY.partition("/")
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_VERBS = {"approval": "approve", "status": "sign"}


def set_requester(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Record who requests the certificate."""
    spec = obj.setdefault("spec", {})
    user = ctx.user
    requester = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
    for field, value in requester.items():
        spec.pop(field, None)
        if value:
            spec[field] = value


def check_subject(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject client certificates for members of system:masters."""
    spec = obj.get("spec") or {}
    if spec.get("signerName") != _CLIENT_SIGNER:
        return
    from cryptography.x509.oid import NameOID

    subject = parse_request(spec.get("request") or "").subject
    if any(item.value == "system:masters" for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
        raise ctx.forbidden(obj, f"use of {_CLIENT_SIGNER} signer with system:masters group is not allowed")


def check_signer(rbac: Rbac, ctx: Admission, obj: Obj, old: Mapping[str, Any]) -> None:
    """Require the permission to approve, or to sign, requests for a signer."""
    verb = _VERBS.get(ctx.subresource)
    before, after = old.get("status") or {}, obj.get("status") or {}
    changed = any(before.get(field) != after.get(field) for field in ("certificate", "conditions"))
    if verb is None or (verb == "sign" and not changed):
        return
    signer = str((old.get("spec") or {}).get("signerName", ""))
    resources = (signer, f"{signer.partition('/')[0]}/*")
    attributes = (Attributes(ctx.user, verb, _GROUP, "*", "signers", "", "", name) for name in resources)
    if not any(rbac.authorize(item).allowed for item in attributes):
        raise ctx.forbidden(obj, f'user not permitted to {verb} requests with signerName "{signer}"')
