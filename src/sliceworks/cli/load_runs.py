"""From a LoadTest document to a test whose target is known, and from a run to its report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument, UsageError
from sliceworks.loadtest import check_installed
from sliceworks.specs import documents
from sliceworks.specs.load_test import LoadTest, LoadTestSpec

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube import Client


@dataclass(frozen=True, slots=True)
class Where:
    """The cluster and the namespace that a command means."""

    namespace: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    twin: bool = False

    @property
    def at(self) -> dict[str, Any]:
        return {"kubeconfig": self.kubeconfig, "context": self.context, "twin": self.twin}

    def open(self) -> Client:
        from sliceworks.cli import connections

        return connections.open_cluster(**self.at, namespace=self.namespace)

    def cloud(self) -> dict[str, str]:
        """The address and the token of the twin's cloud; nothing where Google's is meant."""
        from sliceworks.cli import connections

        return dict(zip(("endpoint", "token"), connections.twin_cloud(), strict=True)) if self.twin else {}


@dataclass(frozen=True, slots=True)
class Test:
    """A document that was read, where its files are, and where it runs."""

    name: str
    spec: LoadTestSpec
    files: Path
    url: str
    where: Where = Where()
    key: str | None = field(default=None, repr=False)
    """None: the document says where it is, if there is one."""


def read(file: Path, where: Where, *, url: str = "", workers: int | None = None, on: str | None = None) -> Test:
    """The one LoadTest of a file, with what the command says in place of the document."""
    document = documents.read_as(yamls.load_one(file, "LoadTest"), LoadTest)
    spec = document.spec
    senders = spec.workers.model_copy(update={"count": workers or spec.workers.count, "where": on or spec.workers.where})
    if senders.where == "cluster" and senders.image is None:
        raise InvalidDocument(
            "workers on a cluster need an image",
            place=str(file),
            hint="workers.image: the load-worker of the environment's registry",
        )
    return Test(document.metadata.name, spec.model_copy(update={"workers": senders}), file.resolve().parent, url, where)


def aimed(test: Test) -> Test:
    """The test with its target found, where the document names a model service."""
    from sliceworks.cli import connections, load_targets

    if test.url or test.spec.target.model_service is None:
        _expect_way(test)
        return replace(test, spec=load_targets.from_file(test.spec, test.files))

    async def look() -> load_targets.Found:
        async with test.where.open() as client:
            inside = test.spec.workers.where == "cluster"
            return await load_targets.find(client, test.spec, test.files, test.where.namespace, inside=inside)

    found = connections.run(look, **test.where.at)
    return replace(test, spec=found.spec, url=found.url, key=found.key, where=replace(test.where, namespace=found.namespace))


def _expect_way(test: Test) -> None:
    """Pods have a loopback of their own; those of a twin share this machine's."""
    from urllib.parse import urlsplit

    host = urlsplit(test.url or test.spec.target.url).hostname or ""
    if test.spec.workers.where == "cluster" and not test.where.twin and (host == "localhost" or host.startswith("127.")):
        raise UsageError(f"pods do not find this machine by {host}", hint="name the model service, or an address that they know")


def loaded(folder: Path) -> dict[str, Any]:
    """A run that came to its end."""
    check_installed()
    from sliceworks.loadtest import ending, results

    if (folder / ending.NOTE).exists() and not (folder / results.RUN).exists():
        raise InvalidDocument(f"the run in {folder} did not come to its end", hint=f"sliceworks load recover {folder}")
    return results.load(folder)


def rendered(folder: Path, form: str) -> str:
    """The report of a run."""
    run = loaded(folder)
    from sliceworks.loadtest.report import writing

    return writing.rendered(run, folder, form)


def counted(folder: Path) -> tuple[float, float]:
    """The part of a run that counts, in seconds from its beginning."""
    run = loaded(folder)
    from sliceworks.loadtest.report import writing

    return writing.counted(run)
