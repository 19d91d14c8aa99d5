"""`sliceworks load run` of a model service on a twin that runs processes: from this machine, and from pods of the cluster."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import orjson
import pytest
from tests.support.model_twins import model_twin
from tokenizers import Tokenizer, models

from sliceworks.base import clock, yaml_documents
from sliceworks.cli import connections, main
from sliceworks.cloud import Session, Token
from sliceworks.kube import open_client
from sliceworks.kube.resources import CONFIG_MAP, JOB, NETWORK_POLICY, POD, SECRET, SERVICE
from sliceworks.platform import twin_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.kube import Client

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone"),
    pytest.mark.long(50),
]
EXAMPLE = Path(__file__).parents[2] / "examples" / "load-tests" / "chat-from-pods.yaml"
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
    """A model behind a gateway that requires a key."""
    with model_twin(tmp_path_factory.mktemp("load")) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLICEWORKS_GATEWAY_KEY", "mine")
        in_cloud("POST", "/storage/v1/b?project=p", b'{"name": "loads"}')
        put("prompts/two.jsonl", b'"one two"\n"three four five"\n')
        put("tokenizer.json", TOKENIZER)
        (folder / "model.yaml").write_text(MODEL)
        assert main.run(["models", "deploy", "-f", str(folder / "model.yaml"), "-y", "--timeout", "60s", "--twin", "--quiet"]) == 0
        yield folder


def on_cluster(work: Callable[[Client], Any]) -> Any:
    async def act() -> Any:
        async with open_client(twin_home.find("models").state().kubeconfig) as client:
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
    file.write_text(yaml_documents.dump({**kind, "spec": spec}))
    return file


def test_upload_to_a_folder(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slash at the end of the URL makes it a folder, as in gcloud; a folder without files is an error."""
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "empty").mkdir()
    assert main.run(["twin", "upload", str(tmp_path / "a.txt"), "gs://loads/texts/", "--name", "models"]) == 0
    assert capsys.readouterr().out == "gs://loads/texts/a.txt\n"
    assert main.run(["twin", "upload", str(tmp_path / "empty"), "gs://loads/texts", "--name", "models"]) == 1
    assert "empty: the folder has no files" in capsys.readouterr().err


def load(file: Path, *words: str) -> int:
    return main.run(["load", "run", "-f", str(file), "--twin", "-q", "-o", "json", *words])


def remaining_objects() -> list[str]:
    """The objects of load tests in the cluster."""

    async def look(client: Client) -> list[str]:
        kinds = (JOB, POD, CONFIG_MAP, SECRET, SERVICE, NETWORK_POLICY)
        result = [(await client.list_all(kind, "default", labels="sliceworks.dev/load-test")).items for kind in kinds]
        return [item["metadata"]["name"] for items in result for item in items]

    result: list[str] = on_cluster(look)
    return result


def test_model_service_is_found_by_name(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompts and tokenizer come from a bucket; the server reports what the tokenizer would count."""
    distant = {"prompts": {"file": "gs://loads/prompts/two.jsonl"}, "tokens": {"tokenizer": "gs://loads/tokenizer.json"}}
    assert load(document(tmp_path, **distant)) == 0, capsys.readouterr()
    result = orjson.loads(capsys.readouterr().out)
    assert result["url"].startswith("http://127.")
    assert (result["summary"]["succeeded"], result["tokens"]["server"]) == (20, 20)
    [folder] = (tmp_path / "runs").iterdir()
    assert {path.name for path in folder.iterdir()} == {"run.json", "requests.parquet", "chunks.parquet", "workers.log"}


TOKENIZER = Tokenizer(models.WordLevel({"[unknown]": 0}, unk_token="[unknown]")).to_str().encode()
PODS = {"where": "cluster", "count": 2, "image": "load-worker:1", "cpu": "100m", "memory": "128Mi"}


def in_cloud(method: str, path: str, content: bytes = b"") -> bytes:
    """A response of the twin's cloud."""

    async def ask() -> bytes:
        address, token = connections.twin_cloud()
        async with Session(address, Token(token)) as session:
            return (await session.send_raw(method, path, content, {"content-type": "application/json"})).body

    return asyncio.run(ask())


def put(name: str, content: bytes) -> None:
    in_cloud("POST", f"/upload/storage/v1/b/loads/o?uploadType=media&name={name}", content)


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """The number of requests of each worker, and the number of distinct ones."""
    with duckdb.connect() as connection:
        file = str(next((folder / "runs").iterdir()) / "requests.parquet")
        query = "SELECT worker, count(*), count(DISTINCT number) FROM read_parquet($1) GROUP BY worker ORDER BY worker"
        return connection.execute(query, [file]).fetchall()


def test_pods_send_and_return_rows(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example with fewer pods and requests; prompts come from a bucket, results are written to one."""
    (given,) = yaml_documents.load_path(EXAMPLE)
    spec: dict[str, Any] = given.data["spec"]
    fields = {
        **spec,
        "target": {"modelService": {"file": str(home / "model.yaml")}},
        "prompts": {"file": "gs://loads/prompts/two.jsonl"},
        "stages": [{"constant": 20, "for": "1s"}],
        "warmUp": "0s",
        "slo": ["errors < 1%"],
        "workers": {**spec["workers"], "count": 2, "cpu": "100m", "memory": "128Mi"},
        "results": {"folder": str(tmp_path / "runs"), "bucket": "gs://loads/kept"},
    }
    assert load(document(tmp_path, **fields)) == 0, capsys.readouterr()
    result = orjson.loads(capsys.readouterr().out)
    assert (result["valid"], result["summary"]["succeeded"]) == (True, 20)
    assert rows(tmp_path) == [(0, 10, 10), (1, 10, 10)]
    assert remaining_objects() == []
    [folder] = (tmp_path / "runs").iterdir()
    assert {path.name for path in folder.iterdir()} == {"run.json", "requests.parquet", "chunks.parquet"}
    for file in folder.iterdir():
        name = f"kept%2F{folder.name}%2F{file.name}"
        assert in_cloud("GET", f"/storage/v1/b/loads/o/{name}?alt=media") == file.read_bytes()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"prompts": {"file": "gs://nowhere/x.jsonl"}}, "gs://nowhere/x.jsonl: cannot read: "),
        ({"tokens": {"tokenizer": "gs://loads/prompts/two.jsonl"}}, "not a tokenizer: "),
        ({"results": {"bucket": "gs://nowhere/runs"}}, "gs://nowhere/runs: cannot write results: "),
        (
            {"target": {"modelService": {"name": "chet"}}},
            "model service 'chet' not found in namespace default\nhint: did you mean chat?",
        ),
        ({"model": "tinny"}, "model service chat has no model 'tinny'"),
        ({"api": "oip-infer"}, "spec: infer: required with api oip-infer"),
    ],
)
def test_impossible_test_is_rejected_before_start(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], problem: str
) -> None:
    assert load(document(tmp_path, **{"workers": PODS, **fields})) in (1, 2)
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert remaining_objects() == []


@contextmanager
def start_test(folder: Path, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """A test whose pods have started to send and some of whose rows have arrived."""
    file = document(folder, workers={**PODS, "count": count}, stages=[{"constant": 20, "for": "6s"}])
    command = [sys.executable, "-m", "sliceworks", "load", "run", "-f", str(file), "--twin", "-q"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) as running:
        result = (folder / "runs").glob
        assert clock.wait_until(lambda: sum(item.stat().st_size > 880 for item in result("*/worker-*.rows")) == count, 90)
        yield running


def concluded(folder: Path) -> dict[str, Any]:
    [file] = (folder / "runs").glob("*/run.json")
    result: dict[str, Any] = orjson.loads(file.read_bytes())
    return result


def test_rows_of_killed_pod_are_kept(home: Path, tmp_path: Path) -> None:
    async def kill(client: Client) -> str:
        pods = (await client.list_all(POD, "default", labels="sliceworks.dev/load-test")).items
        name: str = next(pod["metadata"]["name"] for pod in pods if "-2-" in pod["metadata"]["name"])
        await client.delete(POD, name, "default", grace_period_seconds=0)
        return name

    with start_test(tmp_path, 2) as running:
        name = on_cluster(kill)
        assert running.wait(90) == 1
    result = concluded(tmp_path)
    assert any(problem.startswith(f"worker 1: pod/{name} ") for problem in result["problems"]), result["problems"]
    counts = sorted(many for _, many, _ in rows(tmp_path))
    assert 0 < counts[0] < counts[1] == 60
    assert remaining_objects() == []


def test_ctrl_c_keeps_rows_and_deletes_pods(home: Path, tmp_path: Path) -> None:
    with start_test(tmp_path, 1) as running:
        running.send_signal(signal.SIGINT)
        assert running.wait(90) == 1
    result = concluded(tmp_path)
    assert result["problems"][0] == "ended early: it was interrupted"
    assert 0 < result["summary"]["succeeded"] < 120
    assert remaining_objects() == []
