"""Config Connector's operator: starts the system components of a ConfigConnector object, as pods of `cnrm-system`.

It acts only where its own StatefulSet exists, which the release bundle creates. Without it, as on a twin that was started with
`--config-connector`, the twin itself takes the place of all components.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import AlreadyExists
from sliceworks.schemas import config_connector
from sliceworks.schemas.config_connector import OPERATOR, OPERATOR_NAMESPACE
from sliceworks.twin.apiserver.auth.authentication import MASTERS, User
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller_context import ObjectKey, object_key
from sliceworks.twin.controllers.runtime.resource_keys import DEFINITIONS, DEPLOYMENTS, NAMESPACES, STATEFUL_SETS

if TYPE_CHECKING:
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

Obj = dict[str, Any]
SYSTEM_NAMESPACE = "cnrm-system"
_USER = User(f"system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR}", groups=(MASTERS,))
_KINDS = {"StatefulSet": STATEFUL_SETS, "Deployment": DEPLOYMENTS}
_COMPONENTS = (
    ("StatefulSet", "cnrm-controller-manager", 1),
    ("StatefulSet", "cnrm-deletiondefender", 1),
    ("StatefulSet", "cnrm-unmanaged-detector", 1),
    ("Deployment", "cnrm-resource-stats-recorder", 1),
    ("Deployment", "cnrm-webhook-manager", 2),
)


def is_operator(namespace: str, name: str) -> bool:
    """Whether a StatefulSet is the operator."""
    return (namespace, name) == (OPERATOR_NAMESPACE, OPERATOR)


async def reconcile(context: ControllerContext, connector: Obj | None) -> None:
    """Create the CustomResourceDefinitions and system components, or delete the components if the object is deleted."""
    if context.get(STATEFUL_SETS, OPERATOR_NAMESPACE, OPERATOR) is None:
        return
    writer = ApiWriter(context, _USER, user_agent=OPERATOR)
    if connector is None or "deletionTimestamp" in connector["metadata"]:
        for kind, name, _ in _COMPONENTS:
            await writer.delete_if_exists(ObjectKey(_KINDS[kind], SYSTEM_NAMESPACE, name))
        return
    for definition in config_connector.definitions():
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        if context.resource_for(f"{group}/{plural}") is None:
            await _create_missing(context, writer, DEFINITIONS, definition)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE, "labels": _labels("system")}}
    await _create_missing(context, writer, NAMESPACES, namespace)
    for kind, name, replicas in _COMPONENTS:
        await _create_missing(context, writer, _KINDS[kind], _component(kind, name, replicas))


async def _create_missing(context: ControllerContext, writer: ApiWriter, resource: str, obj: Obj) -> None:
    key = object_key(resource, obj)
    if context.get(*key) is None:
        with suppress(AlreadyExists):
            await writer.create(resource, key.namespace, obj)


def _labels(component: str) -> dict[str, str]:
    return {"cnrm.cloud.google.com/component": component, "cnrm.cloud.google.com/system": "true"}


def _component(kind: str, name: str, replicas: int) -> Obj:
    labels = _labels(name)
    image = f"gcr.io/gke-release/cnrm/{name.removeprefix('cnrm-')}:{config_connector.RELEASE}"
    container = {"name": "manager", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}}}
    spec: Obj = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    if kind == "StatefulSet":
        spec["serviceName"] = name
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
