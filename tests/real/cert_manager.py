"""The real cert-manager beside an API server: the objects of its chart, its webhook, controllers and CA injector."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.real.build import build, module_folder
from tests.real.processes import Process, free_port, serves
from tests.real.programs import Program
from tests.real.release import Release

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster

PROGRAM = Program("cert-manager", "cert-manager", ".")
MODULE = "github.com/cert-manager/cert-manager"
NAMESPACE, WEBHOOK = "cert-manager", "cert-manager-webhook"


@contextmanager
def running(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Install its release and run its programs.

    A twin calls the webhook at the address of the exposed Service, a real API server at a URL.
    """
    port, health = free_port(), free_port()
    chart = module_folder(PROGRAM, MODULE) / "deploy" / "charts" / "cert-manager"
    release = Release.rendered(folder, NAMESPACE, chart, settings=("--set=crds.enabled=true",))
    release.install(cluster.api, namespace=NAMESPACE)
    if cluster.name == "twin":
        exposed = {"namespace": NAMESPACE, "service": WEBHOOK, "address": f"127.0.0.1:{port}"}
        cluster.api.post("/debug/twin/exposed", exposed).ok()
    release.register_webhooks(cluster.api, "" if cluster.name == "twin" else f"https://localhost:{port}")
    serving = (
        f"--secure-port={port}",
        f"--healthz-port={health}",
        "--metrics-listen-address=0",
        f"--dynamic-serving-ca-secret-namespace={NAMESPACE}",
        f"--dynamic-serving-ca-secret-name={WEBHOOK}-ca",
        f"--dynamic-serving-dns-names={WEBHOOK}.{NAMESPACE}.svc,localhost",
    )
    programs = {"webhook": serving, "controller": (f"--cluster-resource-namespace={NAMESPACE}",), "cainjector": ()}
    processes: dict[str, Process] = {}
    try:
        for name, flags in programs.items():
            command = (str(build(PROGRAM)), name, f"--kubeconfig={cluster.kubeconfig}", *flags)
            processes[name] = Process(f"cert-manager {name}", command, folder / f"{name}.log")
        processes["webhook"].wait_until(lambda: serves(f"http://127.0.0.1:{health}/healthz"))
        yield
    finally:
        for process in processes.values():
            process.kill()
