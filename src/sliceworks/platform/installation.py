"""What a cluster has of Sliceworks and of the programs it works with: versions, and checks that each name the command that repairs.

read_versions(client)    name and version of every program
examine(client)          one Check per property; nothing is changed
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from sliceworks import __version__
from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import Forbidden
from sliceworks.base.names import join_first, pluralize
from sliceworks.catalog import data
from sliceworks.controllers.graphs import manifests as graph_manifests
from sliceworks.controllers.graphs.well_known import GRAPH_DEFINITION
from sliceworks.graph import rbac
from sliceworks.infra.cluster.addon import release_url
from sliceworks.infra.cluster.composition import component_manifests
from sliceworks.kube.discovery import VERSION_REQUEST, is_twin
from sliceworks.kube.resources import (
    CLUSTER_ROLE,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    JOBSET,
    LEASE,
    POD,
    SECRET,
    SERVICE,
    SUBJECT_ACCESS_REVIEW,
    Resource,
)
from sliceworks.platform import repairs
from sliceworks.platform.repairs import Installation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from sliceworks.kube.client import Client

Object = dict[str, Any]
State = Literal["ok", "warning", "error", "skipped"]

KUBERNETES = ((1, 31), (1, 35))
"""The oldest and the newest minor version of Kubernetes that is supported."""

_LABELS = "app.kubernetes.io/name=sliceworks"
_COMPONENT, _VERSION = "app.kubernetes.io/component", "app.kubernetes.io/version"
_LEASES = {"graphs": "controller.kro.run", "slices": "ecaf1259.google.com"}
_APIS = {"JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobset"), "Kueue": ("kueue.x-k8s.io", "v1beta2", "kueue")}
_WEBHOOKS = [
    Resource("admissionregistration.k8s.io", "v1", f"{kind}WebhookConfiguration", f"{kind.lower()}webhookconfigurations", False)
    for kind in ("Mutating", "Validating")
]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check; `repair` is a command for a warning or an error."""

    area: str
    name: str
    state: State
    message: str
    repair: str = ""

    def as_data(self) -> dict[str, str]:
        """The check as JSON."""
        return asdict(self)


async def read_versions(client: Client) -> dict[str, str]:
    """The version of each program in the cluster; what is not installed is missing."""
    versions = {"Kubernetes": str((await client.send(VERSION_REQUEST))["gitVersion"])}
    served = {group.name: group.versions for group in await client.discovery.groups()}
    for name, (group, version, program) in _APIS.items():
        if group in served:
            deployment = await client.find(DEPLOYMENT, f"{program}-controller-manager", f"{program}-system")
            versions[name] = (_image_tag(deployment) if deployment else "") or f"serves {version}"
    for deployment in await _deployments(client):
        versions[f"Sliceworks {_label(deployment, _COMPONENT)}"] = _version_of(deployment)
    return versions


async def examine(client: Client) -> list[Check]:
    """All checks. A check that this user may not perform is skipped."""
    checks: list[Check] = []
    for area, check in (
        ("versions", _check_versions),
        ("crds", _check_crds),
        ("controllers", _check_controllers),
        ("rights", _check_rights),
        ("webhooks", _check_webhooks),
        ("graphs", _check_graphs),
        ("releases", _check_releases),
        ("leftovers", _check_leftovers),
    ):
        try:
            checks += [result async for result in check(client)]
        except Forbidden as error:
            checks.append(Check(area, "permission", "skipped", error.message, "run it as a cluster administrator"))
    return checks


async def _check_versions(client: Client) -> AsyncIterator[Check]:
    versions = await read_versions(client)
    number = re.match(r"v?(\d+)\.(\d+)", versions["Kubernetes"])
    minor = (int(number[1]), int(number[2])) if number else (0, 0)
    oldest, newest = KUBERNETES
    between = f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    state: State = "ok" if oldest <= minor <= newest else "warning"
    repair = "" if state == "ok" else f"use Kubernetes {between}: sliceworks is tested with these"
    yield Check("versions", "Kubernetes", state, f"{versions['Kubernetes']} (supported: {between})", repair)
    served = {group.name: group.versions for group in await client.discovery.groups()}
    for name, (group, version, program) in _APIS.items():
        repair = f"kubectl apply --server-side -f {release_url(program, '{}.{}'.format(*minor))}"
        if group not in served:
            yield Check("versions", name, "warning", f"{name} is not installed", repair)
        elif version not in served[group]:
            message = f"{group} serves {', '.join(served[group])}, but not {version}"
            yield Check("versions", name, "error", message, repair)
        elif name == "JobSet" and not await _has_message_patterns(client):
            needs = data.load("addon_releases")[program]["needs"]
            yield Check("versions", name, "error", f"{versions[name]} has no {needs}: it is too old for training jobs", repair)
        else:
            yield Check("versions", name, "ok", f"{versions[name]} ({group}/{version})")


async def _has_message_patterns(client: Client) -> bool:
    """Whether failure rules of JobSets can tell exit codes apart, as from JobSet 0.10 on."""
    crd = await client.find(CUSTOM_RESOURCE_DEFINITION, f"{JOBSET.plural}.{JOBSET.group}")
    if crd is None:
        return True
    schema = next(version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"] if version["name"] == JOBSET.version)
    for name in ("spec", "failurePolicy", "rules"):
        schema = (schema.get("properties") or {}).get(name) or {}
    return "onJobFailureMessagePatterns" in ((schema.get("items") or {}).get("properties") or {})


async def _check_crds(client: Client) -> AsyncIterator[Check]:
    installation = Installation(await _deployments(client))
    for desired in graph_manifests.build_crds():
        name = desired["metadata"]["name"]
        live = await client.find(CUSTOM_RESOURCE_DEFINITION, name)
        if live is None:
            yield Check("crds", name, "warning", "not installed", installation.install_crds(take_over=False))
        elif not is_condition_true(live, "Established"):
            yield Check("crds", name, "error", "not established", f"kubectl describe crd {name}")
        elif _schemas(live) != _schemas(desired):
            message = f"its schema is not that of version {__version__}"
            yield Check("crds", name, "warning", message, installation.install_crds(take_over=True))
        else:
            yield Check("crds", name, "ok", f"established, schema of version {__version__}")


def _schemas(crd: Object) -> dict[str, Any]:
    return {version["name"]: version["schema"] for version in crd["spec"]["versions"]}


async def _check_controllers(client: Client) -> AsyncIterator[Check]:
    deployments, on_twin = await _deployments(client), await is_twin(client)
    installation = Installation(deployments)
    present = {_label(deployment, _COMPONENT) for deployment in deployments}
    for component in ("graphs", "slices"):
        if component not in present:
            yield Check(
                "controllers", component, "warning", "not installed", installation.upgrade(f"--set {component}.enabled=true")
            )
    for deployment in deployments:
        yield await _check_deployment(client, installation, deployment)
        if _label(deployment, _COMPONENT) in _LEASES and deployment["spec"].get("replicas"):
            yield await _check_lease(client, deployment, is_twin=on_twin)
    other = await client.find(DEPLOYMENT, "kro", "kro-system")
    if other is not None and _label(other, "app.kubernetes.io/name") != "sliceworks":
        message = "the Deployment kro-system/kro is not the graphs controller of Sliceworks"
        yield Check("controllers", "kro", "warning", message, installation.upgrade("--take-ownership", force=True))


async def _check_deployment(client: Client, installation: Installation, deployment: Object) -> Check:
    component, status = _label(deployment, _COMPONENT), deployment.get("status") or {}
    desired, available = int(deployment["spec"].get("replicas", 1)), int(status.get("availableReplicas") or 0)
    version = _version_of(deployment)
    message = f"{available} of {desired} replicas available, version {version}"
    if desired == 0:
        return Check("controllers", component, "error", message, installation.scale(deployment, 2))
    updated = int(status.get("updatedReplicas") or 0)
    if min(available, updated) < desired or int(status.get("replicas") or 0) > updated:
        is_upgrade = available >= desired  # pods of the version before still work
        if is_upgrade:
            message = f"the rollout of version {version} is not complete"
        reason = await _pod_problem(client, deployment)
        state: State = "error" if available == 0 else "warning"
        repair = repairs.undo(deployment) if is_upgrade else repairs.describe(deployment)
        return Check("controllers", component, state, message + (f": {reason}" if reason else ""), repair)
    if version != __version__:
        message += f"; this command has version {__version__}"
        return Check("controllers", component, "warning", message, installation.upgrade())
    if desired < 2:
        message += "; an upgrade or a failed node interrupts it"
        return Check("controllers", component, "warning", message, installation.scale(deployment, 2))
    return Check("controllers", component, "ok", message)


async def _pod_problem(client: Client, deployment: Object) -> str:
    """Why a pod of the Deployment does not run."""
    if (failure := find_condition(deployment, "ReplicaFailure")).get("status") == "True":
        return str(failure.get("message", ""))
    labels = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    for pod in (await client.list(POD, deployment["metadata"]["namespace"], labels=labels, limit=20)).items:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            if waiting := (container.get("state") or {}).get("waiting"):
                return f"{waiting.get('reason', 'waiting')} in pod {pod['metadata']['name']}"
        if (scheduled := find_condition(pod, "PodScheduled")).get("status") == "False":
            return f"pod {pod['metadata']['name']} is not scheduled: {str(scheduled.get('message', '')).partition('. ')[0]}"
    return ""


async def _check_lease(client: Client, deployment: Object, *, is_twin: bool) -> Check:
    component, namespace = _label(deployment, _COMPONENT), deployment["metadata"]["namespace"]
    name = f"{component} leader"
    lease = await client.find(LEASE, _LEASES[component], namespace)
    if lease is None or not (spec := lease["spec"]).get("holderIdentity"):
        # A twin runs the controller in its own process, without an election.
        message, state = f"Lease {namespace}/{_LEASES[component]} has no holder", "skipped" if is_twin else "error"
        return Check("controllers", name, cast("State", state), message, repairs.restart(deployment))
    renewed = spec.get("renewTime")
    age = clock.since(datetime.fromisoformat(renewed)).total_seconds() if renewed else float("inf")
    if age > 3 * float(spec.get("leaseDurationSeconds", 15)):
        message = f"{spec['holderIdentity']} renewed the Lease {age:.0f} s ago"
        return Check("controllers", name, "error", message, repairs.restart(deployment))
    return Check("controllers", name, "ok", str(spec["holderIdentity"]))


async def _check_rights(client: Client) -> AsyncIterator[Check]:
    deployments = await _deployments(client)
    for deployment in deployments:
        component = _label(deployment, _COMPONENT)
        if component not in _LEASES:
            continue
        rules = [rule for obj in component_manifests(component) if obj["kind"] == "ClusterRole" for rule in obj.get("rules") or ()]
        if missing := await _missing_permissions(client, deployment, rules):
            message = f"{_account_of(deployment)} cannot {join_first(missing, 3)}"
            yield Check("rights", component, "error", message, Installation(deployments).upgrade(force=True))
        else:
            yield Check("rights", component, "ok", f"{_account_of(deployment)} has all permissions")


async def _missing_permissions(client: Client, deployment: Object, rules: Iterable[Object]) -> list[str]:
    """What the service account of a controller may not do, such as "get pods"."""
    namespace, _, account = _account_of(deployment).partition("/")
    user = f"system:serviceaccount:{namespace}:{account}"
    return [text for text, attributes in _attributes(rules) if not await _is_allowed(client, user, namespace, attributes)]


def _account_of(deployment: Object) -> str:
    account = deployment["spec"]["template"]["spec"].get("serviceAccountName") or "default"
    return f"{deployment['metadata']['namespace']}/{account}"


def _attributes(rules: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                name, _, subresource = resource.partition("/")
                for verb in rule["verbs"]:
                    yield f"{verb} {resource}", {"group": group, "resource": name, "subresource": subresource, "verb": verb}


async def _is_allowed(client: Client, user: str, namespace: str, attributes: Object) -> bool:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }
    answer = await client.create(review, resource=SUBJECT_ACCESS_REVIEW)
    return bool(answer["status"].get("allowed"))


async def _check_webhooks(client: Client) -> AsyncIterator[Check]:
    unreachable: dict[tuple[str, str], list[tuple[Resource, str, str]]] = {}
    total = 0
    for resource in _WEBHOOKS:
        for configuration in await _list(client, resource):
            for webhook in configuration.get("webhooks") or ():
                service = (webhook.get("clientConfig") or {}).get("service")
                total += 1
                if service and webhook.get("failurePolicy", "Fail") == "Fail" and not await _has_endpoints(client, service):
                    called = (resource, configuration["metadata"]["name"], webhook["name"])
                    unreachable.setdefault((service["namespace"], service["name"]), []).append(called)
    for (namespace, name), calls in unreachable.items():
        failing = f"requests that call {', '.join(webhook for _, _, webhook in calls[:3])} fail"
        if await client.find(SERVICE, name, namespace) is None:
            repair = "; ".join(dict.fromkeys(f"kubectl delete {kind.plural} {configuration}" for kind, configuration, _ in calls))
            yield Check("webhooks", f"{namespace}/{name}", "error", f"Service {namespace}/{name} does not exist; {failing}", repair)
        else:
            message = f"Service {namespace}/{name} has no ready endpoints; {failing}"
            repair = f"kubectl -n {namespace} get pods; kubectl -n {namespace} get events"
            yield Check("webhooks", f"{namespace}/{name}", "error", message, repair)
    if not unreachable:
        yield Check("webhooks", "services", "ok", f"{pluralize(total, 'webhook')}, all reachable" if total else "no webhooks")


async def _has_endpoints(client: Client, service: Object) -> bool:
    labels = f"kubernetes.io/service-name={service['name']}"
    slices = (await client.list(ENDPOINT_SLICE, service["namespace"], labels=labels)).items
    return any((endpoint.get("conditions") or {}).get("ready", True) for item in slices for endpoint in item.get("endpoints") or ())


async def _check_graphs(client: Client) -> AsyncIterator[Check]:
    definitions = await _list(client, GRAPH_DEFINITION)
    inactive = [item for item in definitions if (item.get("status") or {}).get("state") == "Inactive"]
    controller = next((item for item in await _deployments(client) if _label(item, _COMPONENT) == "graphs"), None)
    plurals = {(item.group, item.kind): item.plural for item in await client.discovery.resources()} if inactive else {}
    for definition in inactive:
        name, ready = definition["metadata"]["name"], find_condition(definition, "Ready")
        message, repair = str(ready.get("message") or "its status has no reason"), f"kubectl edit rgd {name}"
        if controller is not None and is_condition_true(definition, "GraphAccepted"):
            missing = await _missing_permissions(client, controller, rbac.graph_rules([definition], plurals))
            if missing:
                message, repair = f"{_account_of(controller)} cannot {join_first(missing, 3)}", repairs.graph_permissions(name)
        yield Check("graphs", name, "warning", f"the definition is not active: {message}", repair)
    if not inactive:
        yield Check("graphs", "definitions", "ok", f"{pluralize(len(definitions), 'definition')}, none inactive")


async def _check_releases(client: Client) -> AsyncIterator[Check]:
    """Helm refuses every further operation on a release while an interrupted one is pending."""
    installation = Installation(await _deployments(client))
    for namespace, name in installation.releases:
        revisions = (await client.list(SECRET, namespace, labels=f"owner=helm,name={name}")).items
        if not revisions:
            continue
        newest = max(revisions, key=lambda revision: int(_label(revision, "version") or 0))
        status, message = _label(newest, "status"), f"revision {_label(newest, 'version')} is {_label(newest, 'status')}"
        repair = repairs.finish_release(namespace, name, revisions, installation.upgrade())
        if status.startswith("pending"):
            yield Check("releases", name, "error", f"{message}: an interrupted operation blocks Helm", repair)
        elif status == "failed":
            yield Check("releases", name, "warning", message, repair)
        else:
            yield Check("releases", name, "ok", message)


async def _check_leftovers(client: Client) -> AsyncIterator[Check]:
    """What an uninstalled graphs controller can leave: a recreated ClusterRole, and definitions with its finalizer."""
    installation = Installation(await _deployments(client))
    if any(_label(deployment, _COMPONENT) == "graphs" for deployment in installation.deployments):
        return
    role = await client.find(CLUSTER_ROLE, "kro:controller")
    if role is not None and _label(role, "app.kubernetes.io/name") == "sliceworks":
        yield Check(
            "leftovers",
            "kro:controller",
            "warning",
            "a ClusterRole without a controller",
            "kubectl delete clusterrole kro:controller",
        )
    for definition in await _list(client, GRAPH_DEFINITION):
        if definition["metadata"].get("deletionTimestamp"):
            message = "is being deleted, but no graphs controller is installed that removes its finalizer"
            repair = installation.upgrade("--set graphs.enabled=true")
            yield Check("leftovers", definition["metadata"]["name"], "error", message, repair)


async def _list(client: Client, resource: Resource) -> list[Object]:
    """All objects of a kind; none if the cluster does not serve it."""
    served = {(item.group, item.plural) for item in await client.discovery.resources()}
    return (await client.list_all(resource)).items if (resource.group, resource.plural) in served else []


async def _deployments(client: Client) -> list[Object]:
    deployments = (await client.list_all(DEPLOYMENT, labels=_LABELS)).items
    return sorted((item for item in deployments if _label(item, _COMPONENT)), key=lambda item: _label(item, _COMPONENT))


def _label(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(name, ""))


def _version_of(deployment: Object) -> str:
    return _image_tag(deployment) or _label(deployment, _VERSION) or "unknown"


def _image_tag(deployment: Object) -> str:
    image = str(deployment["spec"]["template"]["spec"]["containers"][0].get("image", ""))
    return image.rpartition("/")[2].partition("@")[0].partition(":")[2]
