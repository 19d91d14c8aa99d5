"""`sliceworks load` against a model server that really answers: the echo model, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.echoing import echoing

from sliceworks.base import clock, yamls
from sliceworks.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "load-tests"
pytestmark = [pytest.mark.timeout(180), pytest.mark.long(45)]


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """The address of an echo server."""
    with echoing("--ttft", "5ms", "--token-time", "1ms") as url:
        yield url


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a LoadTest into the folder that commands run in."""
    monkeypatch.chdir(tmp_path)

    def write(name: str = "test", **fields: Any) -> Path:
        spec = {
            "target": {"url": "http://127.0.0.1:1"},
            "model": "echo",
            "prompts": {"texts": ["one two three"]},
            "stages": [{"constant": 20, "for": "1s"}],
            "delivery": {"share": 0.0, "delay": "1h"},  # machines that run tests are busy
            **fields,
        }
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            yamls.dump({"apiVersion": "sliceworks.dev/v1alpha1", "kind": "LoadTest", "metadata": {"name": name}, "spec": spec})
        )
        return file

    return write


def runs(folder: Path = Path("load-tests")) -> list[Path]:
    return sorted(each.parent for each in folder.glob("*/run.json"))


def test_run_report_compare_and_ask(echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document(slo=["ttft p99 < 10s", "errors < 1%"], stages=[{"constant": 50, "for": "1s"}])
    assert run(["load", "run", "-f", str(file), "--url", echo, "--tag", "build=7"]) == 0
    shown = capsys.readouterr().out
    assert "50 in 1 s, 50 succeeded" in shown
    assert "kept: errors < 1% (found 0.00%)" in shown
    assert run(["load", "run", "-f", str(file), "--url", echo, "-q", "-o", "json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["valid"], found["kept"], found["summary"]["tokensOut"]) == (True, True, 50 * 128)
    one, two = runs()

    assert run(["load", "list", "-o", "json"]) == 0
    listed = orjson.loads(capsys.readouterr().out)
    assert sorted(each["folder"] for each in listed) == [str(one), str(two)]
    assert {"build": "7"} in [each["tags"] for each in listed]

    assert run(["load", "report", str(one)]) == 0
    page = (one / "report.html").read_text()
    assert "Latency over time" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "").replace(echo, "")  # it needs nothing from elsewhere
    assert run(["load", "report", str(one), "--format", "markdown", "-o", "-"]) == 0
    assert "| end to end |" in capsys.readouterr().out

    assert run(["load", "compare", str(one), str(one)]) == 0  # how two differ depends on what else the machine does
    compared = capsys.readouterr().out
    assert "e2e p50" in compared
    assert "p99" not in compared  # of fifty requests it would be the slowest one
    assert run(["load", "sql", "SELECT run, count(*) AS many FROM requests GROUP BY run ORDER BY run", "-o", "json"]) == 0
    assert [each["many"] for each in orjson.loads(capsys.readouterr().out)] == [50, 50]


def test_a_missed_objective_is_a_failure(echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document(slo=["ttft p50 < 1us"])
    assert run(["load", "run", "-f", str(file), "--url", echo, "-q"]) == 1
    assert "MISSED: ttft p50 < 1us" in capsys.readouterr().out


def test_an_error_storm_is_a_failure(document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document(stages=[{"constant": 20, "for": "60s"}], stop={"over": "1s"})
    assert run(["load", "run", "-f", str(file), "-q"]) == 1
    shown = capsys.readouterr().out
    assert "INVALID: ended early: 100% of the last" in shown
    assert "× connect" in shown


def test_search_finds_a_limit(echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document()
    asked = ["load", "search", "-f", str(file), "--url", echo, "--from", "4", "--most", "10", "--for", "500ms", "-o", "json", "-q"]
    assert run([*asked, "--slo", "ttft p50 < 10s"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["held"], found["failed"], [each["rate"] for each in found["probes"]]) == (10, None, [4, 8, 10])
    assert all(Path(each["run"], "run.json").exists() for each in found["probes"])


def shortened(name: str) -> dict[str, Any]:
    """An example as it is, but shorter and slower; what it names beside itself is found from elsewhere too."""
    (given,) = yamls.load_path(EXAMPLES / f"{name}.yaml")
    spec: dict[str, Any] = given.data["spec"]
    for stage in spec["stages"]:
        stage["for"] = "700ms"
        if "poisson" in stage:
            stage["poisson"] = 20
    spec["warmUp"] = "100ms"
    spec["slo"] = ["errors < 1%"]  # how fast an answer comes says nothing about a machine that runs tests
    if "steps" in spec["stages"][0]:
        spec["stages"][0]["steps"]["rates"] = [10, 20]
    spec.pop("results", None)
    for place in (spec.get("prompts", {}), spec["target"].get("modelService", {})):
        for field in ("file", "trace"):
            if field in place:
                place[field] = str(EXAMPLES / place[field])
    return spec


ELSEWHERE = {"search", "chat-from-pods"}  # which have tests of their own


@pytest.mark.parametrize("name", sorted({each.stem for each in EXAMPLES.glob("*.yaml")} - ELSEWHERE))
def test_examples(echo: str, name: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document(name, **shortened(name))
    assert run(["load", "run", "-f", str(file), "--url", echo, "-q", "-o", "json", "--on", "here", "--workers", "1"]) == 0, (
        capsys.readouterr()
    )
    summary = orjson.loads(capsys.readouterr().out)["summary"]
    assert summary["requests"] > 0
    assert summary["errorRate"] == 0


def test_the_example_of_a_search(echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document("search", **shortened("search"))
    asked = ["load", "search", "-f", str(file), "--url", echo, "--from", "5", "--most", "10", "--for", "600ms", "-q"]
    assert run(asked) == 0
    assert "10 requests/s hold, the most that was tried" in capsys.readouterr().out


def test_a_killed_run_is_put_together_later(
    echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = document(stages=[{"constant": 20, "for": "60s"}])
    command = [sys.executable, "-m", "sliceworks", "load", "run", "-f", str(file), "--url", echo, "-q"]
    with subprocess.Popen(command, cwd=tmp_path) as running:
        rows = Path("load-tests")
        assert clock.wait_until(lambda: any(each.stat().st_size for each in rows.glob("*/worker-0.rows")), 60)
        [folder] = rows.iterdir()
        assert run(["load", "recover", str(folder)]) == 1
        assert "still goes on" in capsys.readouterr().err
        running.kill()
    assert run(["load", "report", str(folder)]) == 1
    assert f"did not come to its end\nhint: sliceworks load recover {folder}" in capsys.readouterr().err
    assert run(["load", "list"]) == 0
    assert f"sliceworks load recover {folder}" in capsys.readouterr().err
    assert run(["load", "recover", str(folder)]) == 1
    assert "INVALID: ended early: it broke off" in capsys.readouterr().out
    assert run(["load", "report", str(folder), "--format", "json", "-o", "-"]) == 0
    assert orjson.loads(capsys.readouterr().out)["summary"]["succeeded"] > 0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"slo": ["ttft < 1s"]}, "spec.slo[0]: which ttft: p50, p99, mean or max? found 'ttft < 1s'"),
        ({"stages": [{"constant": 5}]}, "for: how long it lasts is missing"),
        ({"stages": [{"constant": 5, "users": 3, "for": "1s"}]}, "give one of constant, poisson"),
        ({"api": "openai"}, "spec.api: input should be"),
        ({"target": {"url": "ftp://x"}}, "a url is such as"),
        ({"prompts": {"file": "none.jsonl"}}, "cannot read the prompts"),
        ({"stages": [{"replay": 1}]}, "a replay needs prompts with a trace"),
        ({"warmUp": "5s"}, "leaves nothing"),
        ({"target": {"url": "http://127.0.0.1:1", "key": {"env": "NOT_THERE"}}}, "which is not set"),
        ({"workerz": {}}, "did you mean workers?"),
        ({"workers": {"where": "cluster"}}, "workers on a cluster need an image"),
        ({"target": {"url": "http://a", "modelService": {"name": "b"}}}, "give url or modelService, one of them"),
        ({"target": {"modelService": {}}}, "give name or file, one of them"),
        ({"api": "oip-infer", "infer": {"inputs": [{"name": "x"}]}}, "infer.inputs[0] has no data, and no shape"),
        ({"api": "oip-infer", "infer": {"inputs": [{"shape": [2], "datatype": "BF16"}]}}, "none can be made up of datatype BF16"),
        ({"tokens": {"tokenizer": "none.json"}}, "cannot read the tokenizer"),
    ],
)
def test_bad_documents(
    document: Callable[..., Path], capsys: pytest.CaptureFixture[str], fields: dict[str, Any], problem: str
) -> None:
    assert run(["load", "run", "-f", str(document(**fields))]) == 1
    told = capsys.readouterr().err
    assert problem in told
    assert len(told.splitlines()) <= 2
    assert not runs()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "pods do not find this machine by 127.0.0.1"),
        (["--url", "http://models.example", "--locust-csv"], "Locust's own files and pages are of senders on this machine"),
    ],
)
def test_what_pods_cannot_do(
    document: Callable[..., Path], capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    file = document(workers={"where": "cluster", "image": "load-worker:1"})
    assert run(["load", "run", "-f", str(file), *options]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["load", "report", "nowhere"], "there is no run in nowhere"),
        (["load", "report", __file__], f"there is no run in {__file__}"),
        (["load", "recover", __file__], f"there is no run in {__file__}"),
        (["load", "sql", "SELECT 1"], "there are no runs in load-tests"),
        (["load", "compare", "a", "b"], "there is no run in a"),
    ],
)
def test_no_such_run(document: Callable[..., Path], capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str) -> None:
    document()
    assert run(arguments) == 1
    assert problem in capsys.readouterr().err
