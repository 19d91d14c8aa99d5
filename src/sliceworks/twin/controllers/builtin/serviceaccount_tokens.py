"""The token controller: puts a token of their service account into Secrets of type kubernetes.io/service-account-token."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Conflict, NotFound
from sliceworks.twin.apiserver.auth.authentication import AUTHENTICATED, User
from sliceworks.twin.apiserver.auth.service_account_token import TokenIssuer, secret_token
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey
from sliceworks.twin.controllers.runtime.resource_keys import SECRETS, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_USER = User("system:kube-controller-manager", groups=(AUTHENTICATED,))
_TYPE = "kubernetes.io/service-account-token"
_NAME, _UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"


class TokensController(Controller[NamespacedName]):
    """Fills the Secrets of a service account with token, namespace and CA, and deletes them with the account."""

    watches = frozenset({SECRETS, SERVICE_ACCOUNTS})

    def __init__(self, context: ControllerContext, authority: str, issuer: TokenIssuer) -> None:
        super().__init__(context)
        self._authority, self._issuer = authority, issuer
        self._writer = ApiWriter(context, _USER)
        self._secrets: dict[NamespacedName, str] = {}
        """The Secrets with tokens, and the names of their accounts."""

    def observe(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.resource == SERVICE_ACCOUNTS:
            if change.type == "DELETED":
                for secret, account in self._secrets.items():
                    if (secret[0], account) == key:
                        self.queue.add(secret)
        elif change.type == "DELETED":
            if account := self._secrets.pop(key, ""):
                self.queue.add((change.namespace, f"{change.name}/{account}"))
        elif _TYPE.encode() in change.entry.data and change.obj.get("type") == _TYPE:
            self._secrets[key] = (change.obj["metadata"].get("annotations") or {}).get(_NAME, "")
            self.queue.add(key)

    async def sync(self, key: NamespacedName) -> None:
        namespace, name = key
        secret_name, _, former_account = name.partition("/")
        if former_account:
            await self._remove_reference(namespace, former_account, secret_name)
            return
        secret = self.context.get(SECRETS, namespace, name)
        if secret is None:
            return
        annotations = secret["metadata"].get("annotations") or {}
        account = self.context.get(SERVICE_ACCOUNTS, namespace, annotations.get(_NAME, ""))
        if account is None or annotations.get(_UID, account["metadata"]["uid"]) != account["metadata"]["uid"]:
            with suppress(Conflict):
                key_of_secret = ObjectKey(SECRETS, namespace, name)
                await self._writer.delete_if_exists(key_of_secret, {"preconditions": {"uid": secret["metadata"]["uid"]}})
            return
        data = self._complete(secret, account)
        if data != (secret.get("data") or {}):
            metadata = account["metadata"]
            secret["metadata"]["annotations"] = {**annotations, _NAME: metadata["name"], _UID: metadata["uid"]}
            with suppress(Conflict, NotFound):
                await self._writer.update(SECRETS, {**secret, "data": data})

    def _complete(self, secret: Object, account: Object) -> dict[str, Any]:
        """The data of a Secret with what is missing; the CA certificate is always that of the cluster."""
        data = dict(secret.get("data") or {})
        if self._authority:
            data["ca.crt"] = _encoded(self._authority)
        data["namespace"] = data.get("namespace") or _encoded(secret["metadata"]["namespace"])
        data["token"] = data.get("token") or _encoded(secret_token(account, secret, self._issuer))
        return data

    async def _remove_reference(self, namespace: str, name: str, secret: str) -> None:
        """Remove a deleted Secret from the `secrets` of its account."""
        account = self.context.get(SERVICE_ACCOUNTS, namespace, name)
        secrets = (account or {}).get("secrets") or []
        kept = [item for item in secrets if item.get("name") != secret]
        if account is not None and len(kept) < len(secrets):
            await self._writer.update(SERVICE_ACCOUNTS, {**account, "secrets": kept})


def _encoded(value: str) -> str:
    return b64encode(value.encode()).decode()
