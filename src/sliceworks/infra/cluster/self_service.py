"""What end users of an environment get: Config Connector at work in their namespace, and the published graphs. Pure."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sliceworks.infra.cluster.objects import Identity
from sliceworks.infra.cluster.steps import Holds, Served, Step, available
from sliceworks.infra.names import Names
from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.specs.environment import Environment
    from sliceworks.specs.environment.services import SelfService

Object = dict[str, Any]
_CORE = f"{config_connector.CORE}/v1beta1"
_PROJECT = ("resourcemanager.cnrm.cloud.google.com/v1beta1", "Project")


def operator(environment: Environment, release: Sequence[Object], emails: Mapping[str, str]) -> tuple[Step, Step]:
    """Config Connector: its operator, and the object by which the operator sets it up."""
    service = _of(environment)
    name = service.config_connector.service_account
    connector: Object = {
        "apiVersion": _CORE,
        "kind": "ConfigConnector",
        "metadata": {"name": config_connector.INSTALLED["ConfigConnector"]},
        "spec": {
            "mode": "cluster",
            "googleServiceAccount": emails.get(name) or Names(environment).account(name),
            "stateIntoSpec": "Absent",
        },
    }
    healthy = Holds(_CORE, "ConfigConnector", "", connector["metadata"]["name"], field="healthy")
    return (
        Step("config-connector", tuple(release), (*available(release), Served(((_CORE, "ConfigConnector"),))), "Warn"),
        Step("config-connector-settings", (connector,), (healthy, Served((_PROJECT,)))),
    )


def namespace(environment: Environment) -> Step:
    """What the graphs refer to: the Project object and the credentials of model registries."""
    service = _of(environment)
    if service.project is None:
        return Step("self-service")
    ready = Holds(*_PROJECT, service.namespace, service.project.name)
    return Step("self-service", (_project(environment, service),), (ready,))


def secrets(environment: Environment, values: Mapping[str, Mapping[str, str]]) -> Step:
    """The credentials of model registries, by the Secret's name; they are known here for as long as they are applied."""
    place, wanted = _of(environment).namespace, [each.secret for each in _of(environment).model_registries]
    found = [_secret(place, name, values[name]) for name in wanted if name in values]
    kept = [Identity("v1", "Secret", place, name) for name in wanted if name not in values]
    return Step("secrets", tuple(found), keeps=tuple(kept))


def definitions(graphs: Iterable[Object]) -> Step:
    """The published graphs."""
    found = tuple(graphs)
    ready = tuple(Holds(each["apiVersion"], each["kind"], "", each["metadata"]["name"]) for each in found)
    return Step("definitions", found, ready)


def belonging(environment: Environment) -> dict[str, str]:
    """What says to which project the namespace's objects belong."""
    return {f"{config_connector.PREFIX}project-id": environment.spec.project}


def _project(environment: Environment, service: SelfService) -> Object:
    """The project as it is: it is taken over, never made, and let go of when the object is deleted."""
    project = service.project
    assert project is not None
    parent = (
        {"folderRef": {"external": project.folder}} if project.folder else {"organizationRef": {"external": project.organization}}
    )
    prefix = config_connector.PREFIX
    return {
        "apiVersion": _PROJECT[0],
        "kind": _PROJECT[1],
        "metadata": {
            "name": project.name,
            "namespace": service.namespace,
            "annotations": {f"{prefix}auto-create-network": "false", f"{prefix}deletion-policy": "abandon"},
        },
        "spec": {"name": "", "resourceID": environment.spec.project, **parent},
    }


def _secret(namespace: str, name: str, data: Mapping[str, str]) -> Object:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}


def _of(environment: Environment) -> SelfService:
    assert environment.spec.self_service is not None
    return environment.spec.self_service
