"""The APIServices of a cluster by group version, and the remote APIs of those that name a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.registry.api_service_strategy import local_spec, sort_group_versions, split_name
from sliceworks.twin.store.watch_cache import DELETED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.twin.apiserver.aggregation.remote_api import RemoteApi
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.store.watch_cache import Change

Obj = dict[str, Any]
_CORE, _OPENAPI = "/api", "/openapi/v3/"


class ApiServices:
    """Follows the APIServices in the store. `generation` changes with them and with documents of remote APIs."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._specs: dict[str, Obj] = {}
        self.remotes: dict[str, RemoteApi] = {}
        """By path prefix, such as `/apis/metrics.k8s.io/v1beta1`."""
        self.generation = 0

    def observe(self, change: Change) -> None:
        """Follow a change of an APIService."""
        prefix, deleted = path_prefix(*split_name(change.name)), change.type == DELETED
        spec = {} if deleted else change.obj["spec"]
        if spec != self._specs.get(change.name, {}):
            self.generation += 1
        self._specs[change.name] = spec
        if deleted:
            del self._specs[change.name]
        if spec.get("service") is None:
            self.remotes.pop(prefix, None)
        elif prefix in self.remotes:
            self.remotes[prefix].update(change.obj)
        else:
            from sliceworks.twin.apiserver.aggregation.remote_api import RemoteApi

            self.remotes[prefix] = RemoteApi(self._server, change.obj, self._changed)

    def _changed(self) -> None:
        self.generation += 1

    def find(self, path: str) -> RemoteApi | None:
        """The remote API that serves a path, or whose server has the OpenAPI document there; None if this server does."""
        if path.startswith(_OPENAPI):
            document = path.removeprefix(_OPENAPI)
            return next((remote for remote in self.remotes.values() if document in remote.documents.openapi_paths), None)
        parts = path.split("/", 4)
        return self.remotes.get(_CORE if parts[1:2] == ["api"] else "/".join(parts[:4]))

    def group_versions(self) -> Iterator[tuple[str, str]]:
        """The group versions of remote APIs."""
        return ((remote.group, remote.version) for remote in list(self.remotes.values()))

    def has_group(self, group: str) -> bool:
        """Whether a remote API serves a version of a group."""
        return any(known == group for known, _ in self.group_versions())

    def sorted(self, group_versions: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
        """Groups and their versions in the order of their priorities."""
        return sort_group_versions(
            self._specs.get(f"{version}.{group}") or local_spec(group, version) for group, version in group_versions
        )


def path_prefix(group: str, version: str) -> str:
    """The path under which a group version is served; the core group has all versions under one."""
    return f"/apis/{group}/{version}" if group else _CORE
