"""ServiceAccount: every pod has an account that exists, its pull secrets, and a token mounted unless somebody declined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.admission.context import Admission, Obj

_MIRROR = "kubernetes.io/config.mirror"
_ENFORCE = "kubernetes.io/enforce-mountable-secrets"
_VOLUME = "kube-api-access-"
_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_SECONDS = 3607
_MODE = 420


def service_account(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.setdefault("spec", {})
    if _MIRROR in (obj["metadata"].get("annotations") or {}):
        if spec.get("serviceAccountName"):
            raise ctx.forbidden(obj, "a mirror pod may not reference service accounts")
        return
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = ctx.get("/serviceaccounts", ctx.namespace, name)
    if account is None:
        why = f'error looking up service account {ctx.namespace}/{name}: serviceaccount "{name}" not found'
        raise ctx.forbidden(obj, why)
    wanted = spec.get("automountServiceAccountToken")
    if wanted if wanted is not None else account.get("automountServiceAccountToken", True):
        _mount(spec)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": secret.get("name", "")} for secret in account["imagePullSecrets"]]
    if (account["metadata"].get("annotations") or {}).get(_ENFORCE) in {"1", "t", "T", "true", "TRUE", "True"}:
        _check_secrets(ctx, obj, account)


def _mount(spec: Obj) -> None:
    """Mount the token in each container that has nothing at its place yet; the volume is added when somebody needs it."""
    known = next((volume for volume in spec.get("volumes") or () if volume.get("name", "").startswith(_VOLUME)), None)
    name = known["name"] if known else names.generate(_VOLUME)
    needed = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if not any(mount.get("mountPath") == _PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _PATH}]
            needed = True
    if needed and known is None:
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": _token_volume()}]


def _token_volume() -> Obj:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ],
        "defaultMode": _MODE,
    }


def _check_secrets(ctx: Admission, obj: Obj, account: Mapping[str, Any]) -> None:
    """An account may ask that its pods use no secrets but its own."""
    name, spec = account["metadata"]["name"], obj["spec"]
    allowed = {secret.get("name") for secret in account.get("secrets") or ()}
    for what, secret in _secrets(spec):
        if secret not in allowed:
            why = f'{what}secret.secretName="{secret}" is not allowed because service account {name} does not reference that secret'
            raise ctx.forbidden(obj, why)
    pulls = {secret.get("name") for secret in account.get("imagePullSecrets") or ()}
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if secret.get("name") not in pulls:
            what = f'imagePullSecrets[{index}].name="{secret.get("name", "")}"'
            raise ctx.forbidden(
                obj, f"{what} is not allowed because service account {name} does not reference that imagePullSecret"
            )


def _secrets(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The secrets a pod refers to, each with the words that introduce it."""
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
