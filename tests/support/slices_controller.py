"""The slices controller beside an embedded twin, in virtual time, with a cloud that can fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from tests.support import discovery

from sliceworks.base import clock
from sliceworks.base.metrics import Registry
from sliceworks.base.transport import InProcess, Request, Response
from sliceworks.cloud.container import Container
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.client import Client
from sliceworks.kube.resources import EVENT, JOBSET, POD
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


Obj = dict[str, Any]


QUEUE = "slices"


async def make_queue(client: Client, chips: int) -> None:
    """A queue with this quota of chips, in namespace default."""
    quota = [{"name": "any", "resources": [{"name": "google.com/tpu", "nominalQuota": chips}]}]
    await client.create(_object("AdmissionCheck", QUEUE, {"controllerName": well_known.CHECK_CONTROLLER}))
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


PROJECT, LOCATION, CLUSTER, ZONE = "example-project", "us-central2", "example-cluster", "us-central2-b"


OFFERS = {"offers": [{"zone": f"{LOCATION}-*", "machineType": "*"}]}
"""Every machine type in every zone of the region, so that tests of other zones need no other TPU."""
SETTINGS = Settings(project=PROJECT, location=LOCATION, cluster=CLUSTER, zones=(ZONE,))


class Rig:
    """A twin, its cloud, and the controller, which can be killed and restarted."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self.cluster, self.settings, self.name = cluster, settings, CLUSTER
        self.calls: Counter[str] = Counter()
        self.registry = Registry()
        self.client = Client(cluster.transport(), namespace="default")
        self.service: Any = cluster.cloud.services["container"]
        self.container = self.open_container()
        self.controller: SlicesController | None = None
        self._task: asyncio.Task[None] | None = None

    def open_container(self) -> Container:
        """The container API of the cluster; every request body is checked against Google's discovery document."""

        async def handle(request: Request) -> Response:
            if request.body:
                message, _ = discovery.messages("container", "v1beta1", request.method, request.target.removeprefix("/container/"))
                assert not discovery.problems("container", "v1beta1", message, orjson.loads(request.body))
            self.calls[request.method] += 1
            return await self.cluster.cloud.serve(request)

        session = Session(credentials=Token(self.cluster.token), transport=InProcess(handle))
        return Container(session, PROJECT, LOCATION, self.name, prefix="/container")

    def start(self, settings: Settings | None = None) -> None:
        """Start the controller, or restart it. Only one runs at a time, as replicas of the real one share a Lease."""
        assert self._task is None, "the controller runs already"
        client = Client(self.cluster.transport(), namespace="default")
        self.controller = SlicesController(client, self.open_container(), settings or self.settings, self.registry)
        self._task = asyncio.create_task(self.controller.run())

    @property
    def running(self) -> bool:
        return self._task is not None

    async def kill(self) -> None:
        """Kill the controller."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def check_alive(self) -> None:
        """Fail if the controller has stopped."""
        if self._task is not None and self._task.done():
            await self._task

    async def pools(self) -> dict[str, Obj]:
        return {pool["name"]: pool for pool in await self.container.list_node_pools()}

    async def slices(self) -> dict[str, str]:
        """The states of the pools that a provisioner created, by Job."""
        return {
            pool["config"]["labels"]["google.com/tpu-provisioner-parent-name"]: pool["status"]
            for pool in await self.container.list_node_pools()
            if "google.com/nodepool-manager" in (pool["config"].get("labels") or {})
        }

    async def pods(self, phase: str = "") -> list[Obj]:
        result = (await self.client.list(POD)).items
        return [pod for pod in result if not phase or pod["status"].get("phase") == phase]

    async def jobset(self, name: str = "js", namespace: str = "default") -> Obj:
        return await self.client.get(JOBSET, name, namespace)

    async def condition(self, name: str = "js", kind: str = "sliceworks.dev/SlicesReady") -> Obj:
        conditions = ((await self.jobset(name)).get("status") or {}).get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == kind), {})

    async def events(self, reason: str = "") -> list[tuple[str, str, str]]:
        result = (await self.client.list(EVENT)).items
        condition = [(item["regarding"]["kind"], item["reason"], item.get("note", "")) for item in result]
        return [item for item in condition if item[1].startswith(reason or "NodePool") or item[1].startswith("Slices")]

    async def until(self, look: Callable[[], Awaitable[Any]], seconds: float = 1800.0, what: str = "") -> Any:
        """Wait in the twin's time until `look` returns something."""
        deadline = clock.loop_time() + seconds
        while not (result := await look()):
            await self.check_alive()
            assert clock.loop_time() < deadline, f"{what or look}: not within {seconds:g} s"
            await clock.sleep(1)
        return result


def jobset(
    name: str = "js", replicas: int = 1, *, topology: str = "2x2x2", accelerator: str = "tpu-v4-podslice", **more: Any
) -> Obj:
    """A JobSet as users of the provisioner write it: one Job per slice; `selector`, `pod`, `pods`, `chips`, `seconds` change it."""
    pods, chips = more.pop("pods", 2), more.pop("chips", 4)
    selector = {
        "cloud.google.com/gke-tpu-accelerator": accelerator,
        "cloud.google.com/gke-tpu-topology": topology,
        **more.pop("selector", {}),
    }
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool", **more.pop("annotations", {})}
    pod_annotations = {"sliceworks.dev/run-seconds": str(more.pop("seconds", 60)), **more.pop("pod_annotations", {})}
    amounts = more.pop("amounts", {"google.com/tpu": chips})
    container = {"name": "main", "image": "example.com/train:1", "resources": {"requests": amounts, "limits": amounts}}
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {key: value for key, value in selector.items() if value is not None},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        **more.pop("pod", {}),
    }
    template = {"metadata": {"annotations": pod_annotations, **more.pop("pod_metadata", {})}, "spec": pod}
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "completionMode": "Indexed", "template": template}
    metadata = {"name": name, "namespace": more.pop("namespace", "default"), "annotations": annotations}
    if "labels" in more:
        metadata["labels"] = more.pop("labels")
    spec = {"replicatedJobs": [{"name": "slice", "replicas": replicas, "template": {"spec": job}}], **more}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def rig(settings: Settings = SETTINGS, **cloud: Any) -> AsyncIterator[Rig]:
    """A twin with a cloud and a controller that is not started yet."""
    async with Cluster() as cluster:
        created = Rig(cluster, settings)
        created.service.configure({"clusters": [{"project": PROJECT, "location": LOCATION, "name": CLUSTER}], **OFFERS, **cloud})
        await clock.sleep(2)
        try:
            yield created
        finally:
            await created.kill()
            await created.client.close()


def run_with_rig(main: Callable[[Rig], Awaitable[None]], settings: Settings = SETTINGS, *, seed: int = 7, **cloud: Any) -> None:
    """Run a test's coroutine beside a new twin and its cloud."""

    async def run_main() -> None:
        async with rig(settings, **cloud) as created:
            created.start()
            await main(created)
            await created.check_alive()

    clock.run(run_main(), virtual=True, seed=seed)
