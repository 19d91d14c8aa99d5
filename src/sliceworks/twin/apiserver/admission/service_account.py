"""ServiceAccount: the account of a pod, its pull secrets and its projected token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, names
from sliceworks.twin.apiserver.validation.pod import MIRROR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission, Obj, Store

_ENFORCE = "kubernetes.io/enforce-mountable-secrets"
_VOLUME_PREFIX = "kube-api-access-"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_EXPIRATION_SECONDS = 3607
_MODE = 420
_LOOKUPS = 20


async def wait_for_default_account(store: Store, namespace: str) -> None:
    """Wait up to a second for the `default` account of a new namespace: a pod may be created right after its namespace."""
    for attempt in range(_LOOKUPS):
        if store.get("/serviceaccounts", namespace, "default") is not None or store.get("/namespaces", "", namespace) is None:
            return
        await clock.sleep(0 if attempt < _LOOKUPS // 2 else 0.1)


def service_account(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Set the account of a pod, mount its token and copy its pull secrets."""
    spec = obj.setdefault("spec", {})
    if MIRROR in (obj["metadata"].get("annotations") or {}):
        if spec.get("serviceAccountName"):
            raise ctx.forbidden(obj, "a mirror pod may not reference service accounts")
        return
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = ctx.get("/serviceaccounts", ctx.namespace, name)
    if account is None:
        reason = f'error looking up service account {ctx.namespace}/{name}: serviceaccount "{name}" not found'
        raise ctx.forbidden(obj, reason)
    automount = spec.get("automountServiceAccountToken")
    if automount is None:
        automount = account.get("automountServiceAccountToken", True)
    if automount:
        _mount_token(spec)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": secret.get("name", "")} for secret in account["imagePullSecrets"]]
    if (account["metadata"].get("annotations") or {}).get(_ENFORCE) in {"1", "t", "T", "true", "TRUE", "True"}:
        _check_secrets(ctx, obj, account)


def _mount_token(spec: Obj) -> None:
    """Mount the token in each container without a mount at its path; add the volume if a container needs it."""
    existing = next((volume for volume in spec.get("volumes") or () if volume.get("name", "").startswith(_VOLUME_PREFIX)), None)
    name = existing["name"] if existing else names.generate(_VOLUME_PREFIX)
    needed = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if not any(mount.get("mountPath") == _MOUNT_PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}]
            needed = True
    if needed and existing is None:
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": _token_volume()}]


def _token_volume() -> Obj:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _EXPIRATION_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ],
        "defaultMode": _MODE,
    }


def _check_secrets(ctx: Admission, obj: Obj, account: Mapping[str, Any]) -> None:
    """Reject secrets that the account does not list, if it enforces mountable secrets."""
    name, spec = account["metadata"]["name"], obj["spec"]
    allowed = {secret.get("name") for secret in account.get("secrets") or ()}
    for reference, secret in _secrets(spec):
        if secret not in allowed:
            problem = f'{reference}secret.secretName="{secret}" is not allowed'
            raise ctx.forbidden(obj, f"{problem} because service account {name} does not reference that secret")
    pulls = {secret.get("name") for secret in account.get("imagePullSecrets") or ()}
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if secret.get("name") not in pulls:
            problem = f'imagePullSecrets[{index}].name="{secret.get("name", "")}" is not allowed'
            raise ctx.forbidden(obj, f"{problem} because service account {name} does not reference that imagePullSecret")


def _secrets(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The secrets that a pod references, each with the start of its error message."""
    for volume in spec.get("volumes") or ():
        if "secret" in volume:
            yield "volume with ", volume["secret"].get("secretName", "")
    for title, key in (("init container", "initContainers"), ("container", "containers")):
        for container in spec.get(key) or ():
            start = f"{title} {container.get('name', '')} with"
            for variable in container.get("env") or ():
                ref = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if ref is not None:
                    yield f"{start} envVar {variable.get('name', '')} referencing ", ref.get("name", "")
            for source in container.get("envFrom") or ():
                if "secretRef" in source:
                    yield f"{start} envFrom referencing ", source["secretRef"].get("name", "")
