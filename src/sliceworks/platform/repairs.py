"""The commands that `sliceworks doctor` prints, which can be pasted into a shell: a hint is a comment at their end. Pure.

Installation(deployments)    how a cluster has Sliceworks, and the commands that change it
graph_permissions(name)      the command that gives the graphs controller the permissions for a definition
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks import __version__
from sliceworks.infra.cluster.inventory import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]

_RELEASE = ("sliceworks-system", "sliceworks")
_CHART = f"sliceworks-{__version__}.tgz"
_COMPONENT = "app.kubernetes.io/component"
_FORCE = "--force-conflicts  # Helm 3: without --force-conflicts"
_PERMISSIONS = (
    "kubectl get rgd {} -o yaml | sliceworks graph rights /dev/stdin"
    ' --context "$(kubectl config current-context)" | kubectl apply --server-side -f -'
)


@dataclass(frozen=True, slots=True)
class Installation:
    """The Deployments of Sliceworks in a cluster: `env apply`, Helm or kubectl installed them."""

    deployments: list[Object]

    @property
    def releases(self) -> list[tuple[str, str]]:
        """Namespace and name of each Helm release."""
        return sorted({release_of(deployment) for deployment in self.deployments} - {("", "")})

    def upgrade(self, *flags: str, force: bool = False) -> str:
        """The command that installs this version; `flags` are those of Helm. `force` also sets fields that another manager owns."""
        environment = next(filter(None, (_label(deployment, OWNER) for deployment in self.deployments)), "")
        if environment:
            return f"sliceworks env apply -f FILE  # the document of Environment {environment}"
        if self.deployments and not self.releases:
            conflicts = " --force-conflicts" if force else ""
            return f"kubectl apply --server-side{conflicts} -k FOLDER  # with install.yaml and the images of version {__version__}"
        namespace, name = min(self.releases, default=_RELEASE)
        command = f"helm upgrade --install {name} {_CHART} --namespace {namespace} --create-namespace --values values.yaml"
        return " ".join((command, *flags, *([_FORCE] if force else ())))

    def install_crds(self, *, take_over: bool) -> str:
        """The command that installs the CRDs of graphs: the controller does so when it starts, unless a release contains them."""
        controller = next((item for item in self.deployments if _label(item, _COMPONENT) == "graphs"), None)
        if controller is not None and "--no-install-crds" not in _arguments(controller):
            return restart(controller)
        return self.upgrade("--take-ownership", force=True) if take_over else self.upgrade()

    def scale(self, deployment: Object, replicas: int) -> str:
        """The command that gives a component more replicas."""
        metadata, component = deployment["metadata"], _label(deployment, _COMPONENT)
        if release_of(deployment) == ("", ""):
            return f"kubectl -n {metadata['namespace']} scale deployment {metadata['name']} --replicas {replicas}"
        field = "gateway.minReplicas" if component == "gateway" else f"{component}.replicas"
        return self.upgrade(f"--set {field}={replicas}", force=True)


def restart(deployment: Object) -> str:
    """The command that replaces the pods of a Deployment."""
    metadata = deployment["metadata"]
    return f"kubectl -n {metadata['namespace']} rollout restart deployment {metadata['name']}"


def describe(deployment: Object) -> str:
    """The commands that show why the pods of a Deployment do not run."""
    name, place = deployment["metadata"]["name"], f"-n {deployment['metadata']['namespace']}"
    return f"kubectl {place} describe deployment {name}; kubectl {place} logs deployment/{name}"


def undo(deployment: Object) -> str:
    """The command that returns to the pods before, unless the new ones are available soon."""
    name, place = deployment["metadata"]["name"], f"-n {deployment['metadata']['namespace']}"
    namespace, release = release_of(deployment)
    back = f"helm rollback {release} --namespace {namespace}" if release else f"kubectl {place} rollout undo deployment {name}"
    return f"kubectl {place} rollout status deployment {name} --timeout 2m || {back}"


def finish_release(namespace: str, name: str, revisions: Iterable[Object], install: str) -> str:
    """The command that ends an interrupted or failed operation of Helm: back to the last good revision, else `install` again."""
    statuses = {int(_label(revision, "version") or 0): _label(revision, "status") for revision in revisions}
    if good := [revision for revision, status in statuses.items() if status in ("deployed", "superseded")]:
        return f"helm rollback {name} {max(good)} --namespace {namespace}  # unless an operation is still running"
    if statuses[max(statuses)] == "failed":
        return install
    return f"helm uninstall {name} --namespace {namespace} --wait && {install}"


def graph_permissions(name: str) -> str:
    """The command that gives the graphs controller the permissions for a definition."""
    return _PERMISSIONS.format(name)


def release_of(deployment: Object) -> tuple[str, str]:
    """Namespace and name of the Helm release of an object; empty if Helm did not install it."""
    annotations = deployment["metadata"].get("annotations") or {}
    return annotations.get("meta.helm.sh/release-namespace", ""), annotations.get("meta.helm.sh/release-name", "")


def _arguments(deployment: Object) -> list[str]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return [str(argument) for container in containers for argument in container.get("args") or ()]


def _label(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(name, ""))
