"""Resources of other services that clusters and node pools use: networks, service accounts, resource policies and images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.names import project_number
from sliceworks.catalog import gke_rules
from sliceworks.catalog.gke_rules import PoolSize, Violation, violate
from sliceworks.twin.cloud.core.authorization import Authorizer
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import enforce
from sliceworks.twin.cloud.core.iam_policy import default_account, is_visible
from sliceworks.twin.cloud.google.container.resource_names import project_of, region_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_DEFAULT = "default"
_ACCOUNT_DOMAIN = ".iam.gserviceaccount.com"
_COMPUTE = "https://www.googleapis.com/compute/v1/"


class Dependencies:
    """Looks up what a cluster or node pool refers to. The network and subnetwork `default` exist in every project."""

    def __init__(self, store: Store) -> None:
        self._networks = Table(store, "compute/networks", "Network")
        self._subnetworks = Table(store, "compute/subnetworks", "Subnetwork")
        self._policies = Table(store, "compute/resourcePolicies", "ResourcePolicy")
        self._images = Table(store, "compute/images", "Image")
        self._accounts = Table(store, "iam/serviceAccounts", "ServiceAccount")
        self._identity_pools = Table(store, "container/identityPools", "IdentityPool")
        self._authorizer = Authorizer(store)

    def check_network(self, project: str, location: str, cluster: Obj) -> None:
        """Raise GoogleError if the network, subnetwork or secondary ranges of a new cluster do not exist."""
        network, subnetwork = cluster.get("network") or _DEFAULT, cluster.get("subnetwork") or _DEFAULT
        host, short = host_project(network, project), base_name(network)
        if short != _DEFAULT and self._networks.get(f"projects/{host}/global", short) is None:
            enforce(violate("network-missing", project=host, network=short))
        agent = f"service-{project_number(project)}@container-engine-robot{_ACCOUNT_DOMAIN}"
        if host != project and not self._authorizer.is_allowed(agent, "container.hostServiceAgent.use", host):
            enforce(violate("shared-vpc-agent", host=host))
        region, name = region_of(location), base_name(subnetwork)
        if name == _DEFAULT:
            return
        path = f"projects/{host_project(subnetwork, host)}/regions/{region}"
        document = self._subnetworks.get(path, name)
        if document is None or base_name(document.body["network"]) != short:
            enforce(violate("subnetwork-missing", subnetwork=f"{path}/subnetworks/{name}", network=short))
            return
        ranges = {item.get("rangeName") for item in document.body.get("secondaryIpRanges") or ()}
        policy, link = cluster.get("ipAllocationPolicy") or {}, f"{_COMPUTE}projects/{host}/global/networks/{short}"
        for field, rule in (
            ("clusterSecondaryRangeName", "pod-range-missing"),
            ("servicesSecondaryRangeName", "service-range-missing"),
        ):
            secondary = policy.get(field)
            if secondary and secondary not in ranges:
                enforce(violate(rule, range=secondary, network=link, subnetwork=name))

    def create_identity_pool(self, project: str) -> None:
        """Create the workload identity pool of a project, which its first cluster with Workload Identity does."""
        name = f"{project}.svc.id.goog"
        if self._identity_pools.get("", name) is None:
            self._identity_pools.put(Document("", name, {}))

    def check_caller(self, caller: str, project: str, account: str) -> None:
        """Raise GoogleError if a caller may not act as the service account of a node pool."""
        email = account if "@" in account else default_account(project)
        domain = email.partition("@")[2]
        owner = domain.removesuffix(_ACCOUNT_DOMAIN) if domain.endswith(_ACCOUNT_DOMAIN) else project
        resource = ("iam", f"projects/{owner}/serviceAccounts/{email}")
        if not self._authorizer.is_allowed(caller, "iam.serviceAccounts.actAs", owner, resource):
            enforce(violate("service-account-user", account=email))

    def check_account(self, account: str) -> None:
        """Raise GoogleError if the service account of a node pool does not exist; Google's own accounts always do."""
        name, _, domain = account.partition("@")
        project = domain.removesuffix(_ACCOUNT_DOMAIN)
        if not name or project == domain:
            return
        document = self._accounts.get(f"projects/{project}", account)
        if document is None or not is_visible(document):
            enforce(violate("node-account-missing", account=account))

    def check_policy(self, project: str, region: str, policy: str) -> None:
        """Raise GoogleError if the resource policy of a node pool does not exist."""
        short = base_name(policy)
        if short and self._policies.get(f"projects/{project}/regions/{region}", short) is None:
            enforce(violate("workload-policy-missing", project=project, region=region, policy=short))

    def find_missing_image(self, config: Obj, project: str, *, is_adopted: bool = False) -> str:
        """The first disk image of a node pool that does not exist; images of other projects are assumed to exist.

        For an adopted cluster, whose project may have any image, only if the project has an image in the twin's cloud.
        """
        if is_adopted and next(self._images.all(f"projects/{project}/global"), None) is None:
            return ""
        for disk in config.get("secondaryBootDisks") or ():
            image = str(disk.get("diskImage") or "")
            path = image.partition("/compute/v1/")[2] or image
            owner = host_project(path, project)
            if owner == project and self._images.get(f"projects/{owner}/global", base_name(path)) is None:
                return path
        return ""

    def find_shortage(self, cluster: Obj, path: str, pools: Iterable[PoolSize], instance: str) -> Violation | None:
        """The rule that breaks if the node pools of a cluster have these sizes: its ranges have no address for an instance."""
        project, region, name = project_of(path), region_of(cluster["location"]), cluster.get("subnetwork") or _DEFAULT
        network = (cluster.get("networkConfig") or {}).get("subnetwork") or ""
        host = host_project(network, project)
        document = self._subnetworks.get(f"projects/{host}/regions/{region}", name)
        if document is None:
            return None
        sizes, resource = list(pools), f"projects/{host}/regions/{region}/subnetworks/{name}"
        violation = gke_rules.check_node_range(
            document.body["ipCidrRange"], sum(size.nodes for size in sizes), instance=instance, name=resource
        )
        secondary = (cluster.get("ipAllocationPolicy") or {}).get("clusterSecondaryRangeName")
        for item in document.body.get("secondaryIpRanges") or ():
            if violation is None and item.get("rangeName") == secondary:
                violation = gke_rules.check_pod_range(item["ipCidrRange"], sizes, instance=instance, name=f"{resource}-{secondary}")
        return violation


def host_project(path: str, project: str) -> str:
    """The project in a resource path, or the given one for a plain name."""
    _, separator, rest = path.partition("projects/")
    return rest.partition("/")[0] if separator else project


def base_name(path: str) -> str:
    """The last segment of a resource path."""
    return path.rpartition("/")[2]
