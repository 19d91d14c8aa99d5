"""Projects: enabled services, service accounts, and who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudNotFound
from sliceworks.infra.standin.kinds import Kind, Rest, fill
from sliceworks.infra.standin.mapping import Names
from sliceworks.infra.standin.resources.members import Member

if TYPE_CHECKING:
    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]


class ProjectService:
    """A service of a project, enabled."""

    fixed = ("project", "service")
    filled_in: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    _path = "/projects/{project}/services/{service}"

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """Enable it."""
        await settings.session("service_usage").call("POST", fill(self._path, planned) + ":enable", {})
        return _enabled(planned)

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """It, while it is enabled."""
        answer = await settings.session("service_usage").call("GET", fill(self._path, known))
        return _enabled(known) if answer.get("state") == "ENABLED" else None

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """What can change is known to Terraform alone."""
        return _enabled(planned)

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Disable it, if that was asked for."""
        if prior.get("disable_on_destroy"):
            await settings.session("service_usage").call("POST", fill(self._path, prior) + ":disable", {})


def _enabled(state: Object) -> Object:
    return {**state, "id": fill("{project}/{service}", state)}


class ServiceAccount:
    """A service account: made by its short name, known by its address."""

    fixed = ("account_id", "project")
    filled_in: tuple[str, ...] = ()
    _path = "/projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com"
    imports = (_path[1:],)

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """A new account."""
        told = {
            key: planned[name]
            for key, name in (("displayName", "display_name"), ("description", "description"))
            if planned.get(name)
        }
        body = {"accountId": planned["account_id"], "serviceAccount": told}
        answer = await settings.session("iam_beta").call("POST", fill("/projects/{project}/serviceAccounts", planned), body)
        return self._state(planned, answer)

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """The account as it is."""
        try:
            answer = await settings.session("iam_beta").call("GET", fill(self._path, known))
        except CloudNotFound:
            return None
        return self._state(known, answer)

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Another name or description; switched on or off."""
        session = settings.session("iam_beta")
        told = {"displayName": planned.get("display_name") or "", "description": planned.get("description") or ""}
        await session.call("PATCH", fill(self._path, prior), {"serviceAccount": told, "updateMask": "displayName,description"})
        if bool(prior.get("disabled")) != bool(planned.get("disabled")):
            await session.call("POST", fill(self._path, prior) + (":disable" if planned.get("disabled") else ":enable"), {})
        return self._state(planned, await session.call("GET", fill(self._path, prior)))

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it."""
        try:
            await settings.session("iam_beta").call("DELETE", fill(self._path, prior))
        except CloudNotFound:
            return

    def _state(self, known: Object, answer: Object) -> Object:
        told = {"display_name": answer.get("displayName"), "description": answer.get("description")}
        return {
            **known,
            **{name: value for name, value in told.items() if value or known.get(name)},
            "id": answer["name"],
            "name": answer["name"],
            "email": answer["email"],
            "member": f"serviceAccount:{answer['email']}",
            "unique_id": answer["uniqueId"],
        }


async def project(settings: Settings, block: Block, config: Object) -> Object:
    """The data source of a project."""
    name = config.get("project_id") or settings.project
    answer = await settings.session("resource_manager").call("GET", f"/projects/{name}")
    parent = answer.get("parent") or {}
    return {
        "id": f"projects/{name}",
        "project_id": name,
        "number": answer["projectNumber"],
        "name": answer["name"],
        "folder_id": parent.get("id") if parent.get("type") == "folder" else None,
        "org_id": parent.get("id") if parent.get("type") == "organization" else None,
    }


async def client_config(settings: Settings, block: Block, config: Object) -> Object:
    """The data source of the provider's own settings."""
    return {
        "id": f'projects/"{settings.project}"/regions/"{settings.region}"/zones/"{settings.zone}"',
        "project": settings.project,
        "region": settings.region or None,
        "zone": settings.zone or None,
        "access_token": settings.token,
    }


KINDS: dict[str, Kind] = {
    "google_project_service": ProjectService(),
    "google_service_account": ServiceAccount(),
    "google_project_iam_member": Member(
        "resource_manager",
        "projects/{project}",
        thing=lambda path: path.removeprefix("projects/"),
        fixed=("project", "role", "member", "condition"),
    ),
    "google_service_account_iam_member": Member(
        "iam_beta", "{service_account_id}", fixed=("service_account_id", "role", "member", "condition")
    ),
    "google_vertex_ai_tensorboard": Rest(
        api="vertex_ai",
        collection="projects/{project}/locations/{region}/tensorboards",
        path="{name}",
        id="{name}",
        fixed=("project", "region", "encryption_spec"),
        names=Names(
            renamed={"effective_labels": "labels"},
            local=frozenset({"project", "region", "labels", "terraform_labels"}),
            sent=frozenset({"effective_labels"}),
        ),
        update_mask=True,
        operations="longrunning",
        named_by_answer=True,
        also=("projects/{project}/locations/{region}/tensorboards/{number}",),
    ),
}
DATA_SOURCES = {"google_project": project, "google_client_config": client_config}
