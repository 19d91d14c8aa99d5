"""Config Connector's operator: starts the system components of a ConfigConnector object, as pods of `cnrm-system`.

It acts only where its own StatefulSet exists, which the release bundle creates. Without it, as on a twin that was started with
`--config-connector`, the twin itself takes the place of all components.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE, STATEFUL_SET
from sliceworks.schemas import config_connector
from sliceworks.schemas.config_connector import OPERATOR, OPERATOR_NAMESPACE
from sliceworks.twin.apiserver.auth.authentication import MASTERS, User

if TYPE_CHECKING:
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

Obj = dict[str, Any]
STATEFUL_SETS = "apps/statefulsets"
SYSTEM_NAMESPACE = "cnrm-system"
_USER = User(f"system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR}", groups=(MASTERS,))
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
    if connector is None or "deletionTimestamp" in connector["metadata"]:
        for kind, name, _ in _COMPONENTS:
            await _ignore(NotFound, context, "DELETE", _path(kind, name))
        return
    for definition in config_connector.definitions():
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        if context.resource_for(f"{group}/{plural}") is None:
            await _ignore(AlreadyExists, context, "POST", CUSTOM_RESOURCE_DEFINITION.path(), definition)
    if context.get("/namespaces", "", SYSTEM_NAMESPACE) is None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE, "labels": _labels("system")}}
        await _ignore(AlreadyExists, context, "POST", NAMESPACE.path(), namespace)
    for kind, name, replicas in _COMPONENTS:
        if context.get(f"apps/{kind.lower()}s", SYSTEM_NAMESPACE, name) is None:
            await _ignore(AlreadyExists, context, "POST", _path(kind), _component(kind, name, replicas))


async def _ignore(error: type[Exception], context: ControllerContext, method: str, path: str, body: Obj | None = None) -> None:
    try:
        await context.send(_USER, method, path, body, user_agent=OPERATOR)
    except error:
        return


def _path(kind: str, name: str | None = None) -> str:
    return (DEPLOYMENT if kind == "Deployment" else STATEFUL_SET).path(SYSTEM_NAMESPACE, name)


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
