"""A queue of Kueue's whose admission check is the slices controller: capacity first, then admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.controllers.slices import words

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

Obj = dict[str, Any]
QUEUE = "slices"


async def make_queue(client: Client, chips: int) -> None:
    """A queue for so many chips, in the namespace default."""
    quota = [{"name": "any", "resources": [{"name": "google.com/tpu", "nominalQuota": chips}]}]
    await client.create(_object("AdmissionCheck", QUEUE, {"controllerName": words.CHECK_CONTROLLER}))
    await client.create(_object("ResourceFlavor", "any", {}))
    spec: Obj = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["google.com/tpu"], "flavors": quota}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": QUEUE}]},
    }
    await client.create(_object("ClusterQueue", QUEUE, spec))
    await client.create(_object("LocalQueue", QUEUE, {"clusterQueue": QUEUE}), "default")


def _object(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
