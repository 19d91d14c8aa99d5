"""Projects: services, service accounts and IAM members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudAlreadyExists, CloudNotFound
from sliceworks.infra.provider import conversion
from sliceworks.infra.provider.conversion import FieldNames
from sliceworks.infra.provider.resources.iam_member import IamMember
from sliceworks.infra.provider.rest_resource import Resource, RestResource, fill_template

if TYPE_CHECKING:
    from sliceworks.infra.provider.rest_resource import ProviderConfig
    from sliceworks.infra.provider.schema import Block

Object = dict[str, Any]


class ProjectService(Resource):
    """An enabled service of a project."""

    _path = "/projects/{project}/services/{service}"

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Enable the service."""
        await settings.session("service_usage").call("POST", fill_template(self._path, planned) + ":enable", {})
        await self._read_project(settings, planned)
        return _enabled(planned)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the service."""
        await self._read_project(settings, known)
        answer = await settings.session("service_usage").call("GET", fill_template(self._path, known))
        if answer.get("state") != "ENABLED":
            raise CloudNotFound(f"service {known['service']} is disabled")
        return _enabled(known)

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Only attributes of Terraform itself can change."""
        return _enabled(planned)

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Disable the service if `disable_on_destroy` is set."""
        if prior.get("disable_on_destroy"):
            await settings.session("service_usage").call("POST", fill_template(self._path, prior) + ":disable", {})

    async def _read_project(self, settings: ProviderConfig, state: Object) -> None:
        """The google provider reads the project with each service: it needs the API of projects."""
        await settings.session("resource_manager").call("GET", fill_template("/projects/{project}", state))


def _enabled(state: Object) -> Object:
    return {**state, "id": fill_template("{project}/{service}", state)}


class ServiceAccount(Resource):
    """A service account: created by its account id, identified by its e-mail address."""

    _path = "/projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com"
    imports = (_path[1:],)

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Create the account."""
        names = (("displayName", "display_name"), ("description", "description"))
        body = {
            "accountId": planned["account_id"],
            "serviceAccount": {key: planned[name] for key, name in names if planned.get(name)},
        }
        path = fill_template("/projects/{project}/serviceAccounts", planned)
        return self._state(planned, await settings.session("iam_beta").call("POST", path, body))

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the account."""
        return self._state(known, await settings.session("iam_beta").call("GET", fill_template(self._path, known)))

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Update display name and description; enable or disable."""
        session, path = settings.session("iam_beta"), fill_template(self._path, prior)
        account_fields = {"displayName": planned.get("display_name") or "", "description": planned.get("description") or ""}
        await session.call("PATCH", path, {"serviceAccount": account_fields, "updateMask": "displayName,description"})
        if bool(prior.get("disabled")) != bool(planned.get("disabled")):
            await session.call("POST", path + (":disable" if planned.get("disabled") else ":enable"), {})
        return self._state(planned, await session.call("GET", path))

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete the account."""
        await settings.session("iam_beta").call("DELETE", fill_template(self._path, prior))

    def _state(self, known: Object, answer: Object) -> Object:
        account_fields = {"display_name": answer.get("displayName"), "description": answer.get("description")}
        return {
            **known,
            **{name: value for name, value in account_fields.items() if value or known.get(name)},
            "id": answer["name"],
            "name": answer["name"],
            "email": answer["email"],
            "member": f"serviceAccount:{answer['email']}",
            "unique_id": answer["uniqueId"],
        }


class CustomRole(RestResource):
    """A custom role. The provider restores a deleted role of the same id instead of creating it."""

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Create or restore the role."""
        session = settings.session(self.api)
        role = conversion.to_api_body(block, planned, self.names)
        path = "/" + fill_template(self.path, planned)
        try:
            deleted = (await session.call("GET", path)).get("deleted")
        except CloudNotFound:
            roles = fill_template("/projects/{project}/roles", planned)
            await session.call("POST", roles, {"roleId": planned["role_id"], "role": role})
        else:
            if not deleted:
                raise CloudAlreadyExists(f"Custom project role {path[1:]} already exists and must be imported")
            await session.call("POST", f"{path}:undelete", {})
            await session.call("PATCH", path, role, {"updateMask": ",".join(sorted(role))})
        return await self.read(settings, block, planned)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the role."""
        state = await super().read(settings, block, known)
        if state.get("deleted"):
            raise CloudNotFound(f"{state['id']} is deleted")
        return state


async def project(settings: ProviderConfig, block: Block, config: Object) -> Object:
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


async def client_config(settings: ProviderConfig, block: Block, config: Object) -> Object:
    """The data source of the provider's configuration."""
    return {
        "id": f'projects/"{settings.project}"/regions/"{settings.region}"/zones/"{settings.zone}"',
        "project": settings.project,
        "region": settings.region or None,
        "zone": settings.zone or None,
        "access_token": settings.token,
    }


RESOURCES: dict[str, Resource] = {
    "google_project_service": ProjectService(),
    "google_service_account": ServiceAccount(),
    "google_project_iam_member": IamMember(
        "resource_manager", "projects/{project}", resource_name=lambda path: path.removeprefix("projects/")
    ),
    "google_service_account_iam_member": IamMember("iam_beta", "{service_account_id}"),
    "google_project_iam_custom_role": CustomRole(
        "iam_beta",
        "projects/{project}/roles/{role_id}",
        FieldNames(renamed={"permissions": "includedPermissions"}, local=frozenset({"project", "role_id", "name"})),
        update_mask=True,
        derived={"name": "projects/{project}/roles/{role_id}"},
    ),
    "google_vertex_ai_tensorboard": RestResource(
        "vertex_ai",
        "{name}",
        FieldNames(
            renamed={"effective_labels": "labels"},
            local=frozenset({"project", "region", "labels", "terraform_labels"}),
            sent=frozenset({"effective_labels"}),
        ),
        collection="projects/{project}/locations/{region}/tensorboards",
        update_mask=True,
        operations="longrunning",
        named_by_answer=True,
        also=("projects/{project}/locations/{region}/tensorboards/{number}",),
    ),
}
DATA_SOURCES = {"google_project": project, "google_client_config": client_config}
