"""From an Environment to the steps by which its cluster gets what it needs. Pure: what must be read is given in `Given`.

namespaces                   every namespace and Kubernetes service account, with the identity it acts as
jobset, kueue, queues        how work is queued
slices                       our controller of slices
config-connector, …          the operator, its settings, the project's object, the credentials of model registries
graphs, definitions          our controller of graphs, and the published graphs
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.infra.cluster import controllers, queueing, self_service
from sliceworks.infra.cluster.objects import merged, namespace, owned
from sliceworks.infra.cluster.steps import Step
from sliceworks.infra.names import Names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
_PLACES = ("Namespace", "ServiceAccount")
_IDENTITY = "iam.gke.io/gcp-service-account"


@dataclass(frozen=True, slots=True)
class Given:
    """What the document does not say itself."""

    emails: Mapping[str, str] = field(default_factory=dict)
    """The accounts that Terraform made, by their short names."""
    queues: Sequence[Object] = ()
    """What the teams need, in order."""
    releases: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    """The objects of what is to be installed. What the cluster has from elsewhere is not among them."""
    graphs: Sequence[Object] = ()
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """The credentials of model registries, by the Secret's name. One that is not here stays in the cluster as it is."""
    settles_kueue: bool = True
    """Whether Kueue's settings are ours to make."""
    plurals: Mapping[tuple[str, str], str] = field(default_factory=dict)


def steps(environment: Environment, given: Given) -> tuple[Step, ...]:
    """Everything that is put into the cluster, first to last, with the label of the environment on it."""
    name = environment.metadata.name
    found = (step for step in _steps(environment, given) if step.objects or step.waits or step.keeps)
    return tuple(replace(each, objects=tuple(owned(obj, name) for obj in merged(each.objects))) for each in found)


def _steps(environment: Environment, given: Given) -> Iterator[Step]:
    spec, addons = environment.spec, environment.spec.addons
    queues = [each for each in given.queues if addons.kueue or not str(each["apiVersion"]).startswith("kueue.x-k8s.io/")]
    yield Step("namespaces", (*_places(environment, given), *(each for each in queues if each["kind"] in _PLACES)))
    if addons.jobset:
        yield queueing.jobset(given.releases.get("jobset", ()))
    if addons.kueue:
        yield queueing.kueue(spec, given.releases.get("kueue", ()), settles=given.settles_kueue)
    yield queueing.queues(each for each in queues if each["kind"] not in _PLACES)
    if addons.slices:
        yield controllers.slices(environment, given.emails)
    if spec.self_service:
        yield from self_service.operator(environment, given.releases.get("config-connector", ()), given.emails)
        yield self_service.namespace(environment)
        yield self_service.secrets(environment, given.secrets)
    if addons.graphs:
        yield controllers.graphs(environment, given.graphs, given.plurals)
        yield self_service.definitions(given.graphs)


def _places(environment: Environment, given: Given) -> Iterator[Object]:
    """Namespaces first, then the accounts in them. Pods of an account act as the Google account that it names."""
    spec = environment.spec
    if spec.self_service:
        yield namespace(spec.self_service.namespace, annotations=self_service.belonging(environment))
    for each in spec.identities.workloads.values():
        yield namespace(each.namespace)
    for name, each in spec.identities.workloads.items():
        email = given.emails.get(name) or each.existing or Names(environment).account(name)
        metadata = {"name": each.service_account or name, "namespace": each.namespace, "annotations": {_IDENTITY: email}}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
