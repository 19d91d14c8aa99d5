"""Services that are little more than their collections: registries, topics and schemas, TensorBoards, fleets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain.operations import Direct, LongRunning
from sliceworks.twin.cloud.plain.policies import Policies
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import Kind, Shelf, named_in_path, named_in_query, number, stamp
from sliceworks.twin.cloud.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.cloud.plain.operations import Style
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_LOCAL = "projects/{project}/locations/{location}"


def _named(parent: str, plural: str, added: Callable[[Call, str, Obj], Obj] | None = None) -> Any:
    """A resource whose name is its whole path, with the times at which it was made and changed."""

    def filled(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        path = f"{parent.format_map(call.params)}/{plural}/{name}"
        times = {"createTime": (before or {}).get("createTime") or stamp(), "updateTime": stamp()}
        extra = added(call, name, body) if added else {}
        return {**extra, **body, "name": path, **times}

    return filled


class _Guarded:
    """A shelf whose things have policies."""

    def __init__(self, shelf: Shelf, policies: Policies) -> None:
        self._shelf, self._policies = shelf, policies

    def routes(self, item: str, may: str, *, http: str = "GET") -> Iterator[Route]:
        """Read and write the policy of a thing."""
        yield Route(http, f"{item}:getIamPolicy", f"{self._shelf.kind.plural}.getIamPolicy", self._get, f"{may}.getIamPolicy")
        yield Route(
            "POST",
            f"{item}:setIamPolicy",
            f"{self._shelf.kind.plural}.setIamPolicy",
            self._set,
            f"{may}.setIamPolicy",
            "SetIamPolicyRequest",
        )

    def _get(self, call: Call) -> Obj:
        self._shelf.found(call)
        return self._policies.get(self._shelf.path(call))

    def _set(self, call: Call) -> Obj:
        self._shelf.found(call)
        return self._policies.set(self._shelf.path(call), call.body.get("policy") or {})


def registries(store: Store) -> PlainService:
    """Artifact Registry."""
    operations = LongRunning(store, "artifactregistry", "google.devtools.artifactregistry.v1.Repository")
    policies = Policies(store, "artifactregistry")

    def added(call: Call, name: str, body: Obj) -> Obj:
        place = call.params
        uri = f"{place['location']}-docker.pkg.dev/{place['project']}/{name}"
        return {"mode": "STANDARD_REPOSITORY", "sizeBytes": "0", "registryUri": uri}

    may = "artifactregistry.repositories"
    shelf = Shelf(
        store,
        Kind(
            "artifactregistry", "repositories", _LOCAL, "Repository", may, operations,
            named=lambda call: call.query.get("repositoryId") or call.query.get("repository_id", ""),
            filled=_named(_LOCAL, "repositories", added), removed=policies.forget, masked=True,
        ),
    )  # fmt: skip
    guarded = _Guarded(shelf, policies).routes(f"{_LOCAL}/repositories/{{repositories}}", may)
    return PlainService("artifactregistry", "v1", [*_changed_directly(shelf), *operations.routes(), *guarded])


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


def topics(store: Store) -> PlainService:
    """Pub/Sub: schemas, topics and subscriptions."""
    direct, policies = Direct(), Policies(store, "pubsub")

    def kind(plural: str, message: str, **other: Any) -> Kind:
        at = "projects/{project}"
        return Kind("pubsub", plural, at, message, f"pubsub.{plural}", direct, **other)

    def path_named(plural: str, added: Obj) -> Any:
        def filled(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
            return {**added, **body, "name": f"projects/{call.params['project']}/{plural}/{name}"}

        return filled

    def schema_filled(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        if not body.get("definition"):
            raise invalid("Invalid schema: definition must be set.")
        path = f"projects/{call.params['project']}/schemas/{name}"
        return {**body, "name": path, "revisionId": number(path + body["definition"])[-8:], "revisionCreateTime": stamp()}

    schemas = Shelf(store, kind("schemas", "Schema", named=named_in_query("schemaId"), filled=schema_filled, update=""))
    themes = Shelf(
        store,
        kind(
            "topics", "Topic", named=named_in_path("topics"), create="PUT", request="Topic", removed=policies.forget,
            filled=path_named("topics", {"state": "ACTIVE"}), unwrapped=_inner("topic"),
        ),
    )  # fmt: skip

    def subscription(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        topic = str(body.get("topic") or "")
        if themes.at(topic.rpartition("/topics/")[0], topic.rpartition("/")[2]) is None:
            raise GoogleError("NOT_FOUND", f"Resource not found (resource={topic.rpartition('/')[2]}).")
        usual = {
            "ackDeadlineSeconds": 10,
            "messageRetentionDuration": "604800s",
            "expirationPolicy": {"ttl": "2678400s"},
            "state": "ACTIVE",
            "pushConfig": {},
        }
        made = {**usual, **body, "name": f"projects/{call.params['project']}/subscriptions/{name}"}
        if body.get("bigqueryConfig"):
            made["bigqueryConfig"] = {"state": "ACTIVE", **body["bigqueryConfig"]}
        return made

    followers = Shelf(
        store,
        kind(
            "subscriptions", "Subscription", named=named_in_path("subscriptions"), create="PUT", filled=subscription,
            unwrapped=_inner("subscription"),
        ),
    )  # fmt: skip
    routes = [*schemas.routes()]
    for shelf, request in ((themes, "UpdateTopicRequest"), (followers, "UpdateSubscriptionRequest")):
        for route in shelf.routes():
            changed = route.http == "PATCH"
            routes.append(
                Route(route.http, route.template, route.method, _masked_body(shelf), route.permission, request)
                if changed
                else route
            )
    routes.extend(_Guarded(themes, policies).routes("projects/{project}/topics/{topics}", "pubsub.topics"))
    return PlainService("pubsub", "v1", routes)


def _inner(key: str) -> Callable[[Obj], Obj]:
    """Pub/Sub wraps what changes; what is made comes bare."""
    return lambda body: body[key] if key in body and isinstance(body[key], dict) else body


def _masked_body(shelf: Shelf) -> Callable[[Call], Obj]:
    """An update whose mask stands in its body."""

    def change(call: Call) -> Obj:
        mask = str(call.body.get("updateMask") or "")
        document = shelf.found(call)
        inner = shelf.kind.unwrapped(call.body)
        wanted = {field.split(".")[0] for field in mask.split(",") if field}
        merged = {**document.body, **{field: inner.get(field) for field in wanted}}
        document.body = shelf.kind.filled(
            call, document.name, {key: value for key, value in merged.items() if value is not None}, document.body
        )
        shelf.put(document)
        return document.body

    return change


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
