"""`sliceworks load run` of a model service on a twin that runs processes: from this machine, and from pods of the cluster."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import orjson
import pytest
from tests.support.model_twins import model_twin

from sliceworks.base import yamls
from sliceworks.cli import main
from sliceworks.kube import open_client
from sliceworks.kube.well_known import CONFIG_MAP, JOB, NETWORK_POLICY, POD, SECRET, SERVICE
from sliceworks.rehearsal import homes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.kube import Client

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone"),
    pytest.mark.timeout(240),
]
ECHO = "exec sliceworks gateway echo --quiet --host $POD_IP --port 8000 --model tiny --ttft 2ms --token-time 1ms"
MODEL = f"""\
apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {{name: chat, namespace: default}}
spec:
  engine: vllm
  accelerator: {{type: l4-1}}
  command: [bash, -c, '{ECHO}']
  cpu: '1'
  memory: 1Gi
  vllm: {{model: {{name: tiny, source: a/tiny}}}}
  gateway:
    image: gateway:1
    cpu: 100m
    replicas: 1
    keys: [{{name: loads, sha256: {hashlib.sha256(b"mine").hexdigest()}}}]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A model behind a gateway that asks for a key."""
    with model_twin(tmp_path_factory.mktemp("load")) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLICEWORKS_GATEWAY_KEY", "mine")
        (folder / "model.yaml").write_text(MODEL)
        assert main.run(["models", "deploy", "-f", str(folder / "model.yaml"), "-y", "--timeout", "60s", "--twin", "--quiet"]) == 0
        yield folder


def on_cluster(work: Callable[[Client], Any]) -> Any:
    async def act() -> Any:
        async with open_client(homes.find("models").state().kubeconfig) as client:
            return await work(client)

    return asyncio.run(act())


def document(folder: Path, **fields: Any) -> Path:
    spec = {
        "target": {"modelService": {"name": "chat"}},
        "prompts": {"texts": ["one two three"]},
        "options": {"maxTokens": 3},
        "stages": [{"constant": 20, "for": "1s"}],
        "delivery": {"share": 0.0, "delay": "1h"},
        "results": {"folder": str(folder / "runs")},
        **fields,
    }
    file = folder / "test.yaml"
    kind = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "LoadTest", "metadata": {"name": "chat"}}
    file.write_text(yamls.dump({**kind, "spec": spec}))
    return file


def load(file: Path, *words: str) -> int:
    return main.run(["load", "run", "-f", str(file), "--twin", "-q", "-o", "json", *words])


def left_behind() -> list[str]:
    """What is in the cluster of load tests."""

    async def look(client: Client) -> list[str]:
        kinds = (JOB, POD, CONFIG_MAP, SECRET, SERVICE, NETWORK_POLICY)
        found = [(await client.list_all(kind, "default", labels="sliceworks.dev/load-test")).items for kind in kinds]
        return [each["metadata"]["name"] for items in found for each in items]

    found: list[str] = on_cluster(look)
    return found


def test_a_model_service_is_found_by_its_name(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load(document(tmp_path)) == 0, capsys.readouterr()
    found = orjson.loads(capsys.readouterr().out)
    assert found["url"].startswith("http://127.")
    assert found["summary"]["succeeded"] == 20
    assert found["summary"]["tokensOut"] == 60


def test_pods_send_and_their_rows_come_back(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prompts.jsonl").write_text('"one two"\n"three four five"\n')
    workers = {"where": "cluster", "count": 2, "image": "load-worker:1", "cpu": "100m", "memory": "128Mi"}
    target = {"modelService": {"file": str(home / "model.yaml")}}
    file = document(tmp_path, workers=workers, target=target, prompts={"file": "prompts.jsonl"})
    assert load(file) == 0, capsys.readouterr()
    found = orjson.loads(capsys.readouterr().out)
    assert (found["valid"], found["summary"]["succeeded"]) == (True, 20)
    [folder] = (tmp_path / "runs").iterdir()
    with duckdb.connect() as connection:
        table = connection.read_parquet(str(folder / "requests.parquet"))
        assert table.aggregate("worker, count(*)").order("worker").fetchall() == [(0, 10), (1, 10)]
        assert table.aggregate("count(DISTINCT number), sum(pieces)").fetchall() == [(20, found["summary"]["tokensOut"])]
    assert left_behind() == []
