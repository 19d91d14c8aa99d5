"""The document at work: models with their servers, callers with what they have left. A new one takes over what has not changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument, UsageError
from sliceworks.serving.gateway.calls import Served
from sliceworks.serving.gateway.keys import Caller, Keys, caller_of, digest_of
from sliceworks.serving.gateway.quotas import Budget, Quota
from sliceworks.serving.gateway.servers import Group, Server
from sliceworks.specs.gateway import Gateway, Rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.serving.gateway.servers import Traits
    from sliceworks.specs.gateway import Backend, GatewaySpec, Model, Secret


class State:
    """One document, resolved. `before` is the one that it takes the place of."""

    def __init__(self, spec: GatewaySpec, before: State | None = None) -> None:
        self.spec = spec
        anonymous = None
        if spec.anonymous:
            anonymous = (
                before.anonymous if before is not None and before.anonymous else Caller("anonymous", ["*"], Quota(Rate(), "all"))
            )
        self.anonymous: Caller | None = anonymous
        self.keys = Keys(dict(_callers(spec, before)), anonymous)
        self.admin_key = digest_of(read_secret(spec.admin.key)) if spec.admin is not None and spec.admin.key else None
        self.models = {each.name: _served(each, spec, before) for each in spec.models}
        self._names = {alias: served for served in self.models.values() for alias in (served.name, *served.model.aliases)}
        self.budget: Budget = before.budget if before is not None and before.spec.retries == spec.retries else _budget(spec)

    def find(self, name: str) -> Served | None:
        """The model of this name."""
        return self._names.get(name)

    @property
    def servers(self) -> list[Server]:
        """All servers of all models."""
        return [server for served in self.models.values() for server in served.group.servers]

    def visible(self, caller: Caller) -> list[Served]:
        """The models that a caller may ask for."""
        return [served for served in self.models.values() if caller.may(served.name)]


def _callers(spec: GatewaySpec, before: State | None) -> Iterator[tuple[bytes, Caller]]:
    for key in spec.keys:
        digest = bytes.fromhex(key.sha256) if key.sha256 is not None else digest_of(read_secret(key.secret))
        yield digest, caller_of(key, before.keys if before is not None else None)


def _served(model: Model, spec: GatewaySpec, before: State | None) -> Served:
    old = before.models.get(model.name) if before is not None else None
    # Models on the same server count apart what they ask it: none goes on with another's.
    known = {server.traits: server for server in old.group.servers} if old is not None else {}
    servers = [make_server(backend, spec, known) for backend in model.backends]
    if old is not None and model.discover is not None and old.model.discover == model.discover:
        listed = {server.backend for server in servers}
        found = [server.backend for server in old.group.servers if server.backend not in {*listed, *old.model.backends}]
        servers += [make_server(backend, spec, known) for backend in found]
    quota = old.quota if old is not None and old.quota.rate == model.rate else Quota(model.rate, f"the model {model.name}")
    timeouts = model.timeouts or spec.timeouts
    return Served(model, Group(model.name, servers, spec.balancing), quota, timeouts, model.max_tokens or spec.caps.max_tokens)


def make_server(backend: Backend, spec: GatewaySpec, known: Mapping[Traits, Server] | None = None) -> Server:
    """The server that a document describes; the one that is at work already where nothing about it changed."""
    credential = read_secret(backend.credential) if backend.credential is not None else ""
    made = Server(backend, spec.health, spec.balancing.slow_start, credential, _read_authority(backend))
    return (known or {}).get(made.traits) or made


def _read_authority(backend: Backend) -> bytes | None:
    if not backend.authority or not backend.secure:
        return None
    try:
        return Path(backend.authority).read_bytes()
    except OSError as error:
        raise InvalidDocument(f"the authority cannot be used: {error.strerror}", place=backend.authority) from error


def _budget(spec: GatewaySpec) -> Budget:
    return Budget(spec.retries.budget, spec.retries.minimum)


def read_secret(secret: Secret | None) -> str:
    """What a secret says now; an InvalidDocument where there is none."""
    assert secret is not None
    if secret.env:
        value = os.environ.get(secret.env, "")
        place = f"the variable {secret.env}"
    else:
        place = secret.file
        try:
            value = Path(secret.file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidDocument(f"the secret cannot be read: {getattr(error, 'strerror', None) or error}", place=place) from error
    if not value and secret.env and secret.env not in os.environ:
        raise InvalidDocument("the secret is not set", place=place)
    if not value:
        raise InvalidDocument("the secret is empty", place=place)
    return value


def secret_files(spec: GatewaySpec) -> list[Path]:
    """Files whose change means the same as a change of the document."""
    secrets = [key.secret for key in spec.keys]
    secrets += [backend.credential for model in spec.models for backend in model.backends]
    secrets.append(spec.admin.key if spec.admin is not None else None)
    files = [Path(secret.file) for secret in secrets if secret is not None and secret.file]
    files += [Path(backend.authority) for model in spec.models for backend in model.backends if backend.authority]
    if (tls := spec.listen.tls) is not None:
        files += [Path(each) for each in (tls.certificate, tls.key, tls.client_authority) if each]
    return files


def read_document(path: Path) -> Gateway:
    """The one Gateway of a file."""
    from sliceworks.base import yamls
    from sliceworks.specs import documents

    found = [document for document in yamls.load_path(path) if document.data.get("kind") == "Gateway"]
    if len(found) != 1:
        raise UsageError(f"{path} has {len(found) or 'no'} Gateway documents", hint="give a file with one of kind: Gateway")
    return documents.read_as(found[0], Gateway)
