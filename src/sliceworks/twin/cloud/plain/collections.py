"""Services that are little more than their collections: registries, TensorBoards, fleets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.plain.guarded import Guarded
from sliceworks.twin.cloud.plain.operations import LongRunning
from sliceworks.twin.cloud.plain.policies import Policies
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import Kind, Shelf, named_in_query, number, stamp
from sliceworks.twin.cloud.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.cloud.plain.images import Images
    from sliceworks.twin.cloud.plain.operations import Style
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_LOCAL = "projects/{project}/locations/{location}"
_MAY = "artifactregistry.repositories"


def _named(parent: str, plural: str, added: Callable[[Call, str, Obj], Obj] | None = None) -> Any:
    """A resource whose name is its whole path, with the times at which it was made and changed."""

    def filled(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        path = f"{parent.format_map(call.params)}/{plural}/{name}"
        times = {"createTime": (before or {}).get("createTime") or stamp(), "updateTime": stamp()}
        extra = added(call, name, body) if added else {}
        return {**extra, **body, "name": path, **times}

    return filled


class Registries:
    """Artifact Registry: repositories, and the images in them."""

    def __init__(self, store: Store, images: Images) -> None:
        self._operations = LongRunning(store, "artifactregistry", "google.devtools.artifactregistry.v1.Repository")
        self._policies, self._images = Policies(store, "artifactregistry"), images
        self._shelf = Shelf(
            store,
            Kind(
                "artifactregistry", "repositories", _LOCAL, "Repository", _MAY, self._operations,
                named=lambda call: call.query.get("repositoryId") or call.query.get("repository_id", ""),
                filled=_named(_LOCAL, "repositories", _repository), removed=self._forget, masked=True,
            ),
        )  # fmt: skip

    def service(self) -> PlainService:
        """The API."""
        guarded = Guarded(self._shelf, self._policies).routes(f"{_LOCAL}/repositories/{{repositories}}", _MAY)
        routes = [*_changed_directly(self._shelf), *self._operations.routes(), *guarded, *self._images.routes()]
        return PlainService("artifactregistry", "v1", routes)

    def has(self, path: str) -> bool:
        """Whether there is a repository of that path."""
        parent, _, name = path.partition("/repositories/")
        return self._shelf.at(parent, name) is not None

    def _forget(self, path: str) -> None:
        self._policies.forget(path)
        self._images.forget(path)


def _repository(call: Call, name: str, body: Obj) -> Obj:
    place = call.params
    uri = f"{place['location']}-docker.pkg.dev/{place['project']}/{name}"
    return {"mode": "STANDARD_REPOSITORY", "sizeBytes": "0", "registryUri": uri}


def _changed_directly(shelf: Shelf) -> Iterator[Route]:
    """Of some kinds only making and removing take an operation; a change answers with the thing itself."""

    def change(call: Call) -> Obj:
        shelf.change(call)
        return shelf.found(call).body

    for route in shelf.routes():
        if route.http == "PATCH":
            yield Route(route.http, route.template, route.method, change, route.permission, route.request)
        else:
            yield route


def boards(store: Store) -> PlainService:
    """Vertex AI, as far as TensorBoards go."""
    operations = LongRunning(store, "aiplatform", "google.cloud.aiplatform.v1.Tensorboard")

    def identified(call: Call) -> str:
        return number(f"{call.params['project']}/{call.params['location']}/{call.body.get('displayName')}/{stamp()}")[:18]

    shelf = Shelf(
        store,
        Kind(
            "aiplatform", "tensorboards", _LOCAL, "GoogleCloudAiplatformV1Tensorboard", "aiplatform.tensorboards", operations,
            named=identified, filled=_named(_LOCAL, "tensorboards"), masked=True,
        ),
    )  # fmt: skip
    return PlainService("aiplatform", "v1", [*shelf.routes(), *operations.routes()])


def fleets(store: Store) -> PlainService:
    """GKE Hub: clusters in a fleet, and the fleet's features."""
    operations = LongRunning(store, "gkehub", "google.cloud.gkehub.v1.Membership")

    def kind(plural: str, message: str, key: str, added: Any) -> Kind:
        style: Style = operations
        return Kind(
            "gkehub", plural, _LOCAL, message, f"gkehub.{plural}", style, "resources",
            named=named_in_query(key), filled=_named(_LOCAL, plural, added), masked=True,
        )  # fmt: skip

    def member(call: Call, name: str, body: Obj) -> Obj:
        return {"state": {"code": "READY"}, "uniqueId": number(name)}

    def feature(call: Call, name: str, body: Obj) -> Obj:
        return {"resourceState": {"state": "ACTIVE"}, "state": {"state": {"code": "OK"}}}

    members = Shelf(store, kind("memberships", "Membership", "membershipId", member))
    features = Shelf(store, kind("features", "Feature", "featureId", feature))
    return PlainService("gkehub", "v1", [*members.routes(), *features.routes(), *operations.routes()])
