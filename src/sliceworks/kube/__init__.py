"""The Kubernetes client: everything that talks to a cluster goes through it. Public names are imported at first use.

resources           group, version, kind and paths; the built-in resources
requests            requests as data, built by pure functions
rest                sends requests: retries, errors, warnings, watch events
client              reads, writes, watches and subresource calls
discovery           the resources that a cluster serves
selectors           label selectors
field_selectors     field selectors
connection          server, credentials, TLS, the in-cluster service account
kubeconfig          kubeconfig files
exec_plugin         credentials from an exec plugin
https               the HTTPS transport, and open_client
reflector           lists and watches one selection of objects
informers           shared reflectors with indexed caches
workqueue           keys to reconcile, with delays and rate-limited retries
controller          the reconcile loop
leader_election     leader election with a Lease
events              the event recorder
pod_requests        resource requests and host ports of a pod
pod_diagnosis       why pods are not ready
node_affinity       node selectors, node affinity, taints and tolerations
persistent_volumes  claims, volumes and storage classes that match
pod_placement       node selectors and tolerations for accelerators on GKE
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.imports import lazy_exports

if TYPE_CHECKING:
    from sliceworks.kube.client import Client
    from sliceworks.kube.controller import Controller, Done, Pending
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.https import open_client
    from sliceworks.kube.informers import Delta, Informer, Informers
    from sliceworks.kube.leader_election import LeaderElection
    from sliceworks.kube.requests import PatchType
    from sliceworks.kube.resources import Key, Resource

_HOMES = {
    "client": ("Client",),
    "controller": ("Controller", "Done", "Pending"),
    "events": ("EventRecorder",),
    "https": ("open_client",),
    "informers": ("Delta", "Informer", "Informers"),
    "leader_election": ("LeaderElection",),
    "requests": ("PatchType",),
    "resources": ("Key", "Resource"),
}
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)

__all__ = [
    "Client",
    "Controller",
    "Delta",
    "Done",
    "EventRecorder",
    "Informer",
    "Informers",
    "Key",
    "LeaderElection",
    "PatchType",
    "Pending",
    "Resource",
    "open_client",
]
