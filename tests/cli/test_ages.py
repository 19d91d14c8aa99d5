"""Ages use the cluster's clock, which may run faster than the machine's clock or be advanced."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.model_services import example

from sliceworks.cli import main
from sliceworks.kube import open_client
from sliceworks.platform import twin_home
from sliceworks.serving import record as records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Object = dict[str, Any]
NAME = "moved-on"
JOBSET: Object = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "waits", "namespace": "default"},
    "spec": {
        "suspend": True,
        "replicatedJobs": [
            {
                "name": "slice",
                "template": {
                    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}}}
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A twin whose clock has advanced three hours since a model and a job were created."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLICEWORKS_HOME", str(tmp_path_factory.mktemp("ages")))
        patch.setenv("SLICEWORKS_TWIN", NAME)
        assert main.run(["twin", "start", "--name", NAME, "--memory", "--speed", "1", "--quiet"]) == 0
        try:
            result = twin_home.find(NAME).kubeconfig
            asyncio.run(_fill(result))
            assert main.run(["twin", "advance", "3h10m", "--name", NAME, "--quiet"]) == 0
            yield result
        finally:
            main.run(["twin", "stop", "--name", NAME, "--quiet"])


async def _fill(kubeconfig: Path) -> None:
    result = example("densenet-triton")
    service = result.model_copy(update={"metadata": result.metadata.model_copy(update={"namespace": "default"})})
    document = service.model_dump(by_alias=True, exclude_unset=True, mode="json")
    async with open_client(kubeconfig) as client:
        await client.apply(records.to_config_map(service, document, ()), "default")
        await client.create(JOBSET)


@pytest.mark.parametrize("command", [("models", "list"), ("train", "list")])
@pytest.mark.parametrize("by_environment", [False, True])
def test_ages_use_the_twins_clock(
    kubeconfig: Path,
    command: tuple[str, ...],
    by_environment: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    capsys.readouterr()
    assert main.run([*command, "-A", *(() if by_environment else ("--twin",))]) == 0
    heads, row = capsys.readouterr().out.splitlines()
    assert heads.split()[-1] == "AGE"
    assert row.split()[-1].startswith("3h1")
