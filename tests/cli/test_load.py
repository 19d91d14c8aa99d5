"""`sliceworks load` against the echo model server in its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.echo_server import run_echo_server

from sliceworks.base import clock, yaml_documents
from sliceworks.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "load-tests"
pytestmark = pytest.mark.long(60)


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """The address of an echo server."""
    with run_echo_server("--ttft", "5ms", "--token-time", "1ms") as url:
        yield url


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a LoadTest into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(name: str = "test", **fields: Any) -> Path:
        spec = {
            "target": {"url": "http://127.0.0.1:1"},
            "model": "echo",
            "prompts": {"texts": ["one two three"]},
            "stages": [{"constant": 20, "for": "1s"}],
            "delivery": {"share": 0.0, "delay": "1h"},  # generous, because the machine may be busy
            **fields,
        }
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            yaml_documents.dump(
                {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "LoadTest", "metadata": {"name": name}, "spec": spec}
            )
        )
        return file

    return write


def runs(folder: Path = Path("load-tests")) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/run.json"))


def test_run_report_compare_and_query(echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document(slo=["ttft p99 < 10s", "errors < 1%"], stages=[{"constant": 50, "for": "1s"}])
    assert run(["load", "run", "-f", str(file), "--url", echo, "--tag", "build=7"]) == 0
    shown = capsys.readouterr().out
    assert "50 in 1 s, 50 succeeded" in shown
    assert "met: errors < 1% (found 0.00%)" in shown
    assert run(["load", "run", "-f", str(file), "--url", echo, "-q", "-o", "json"]) == 0
    result = orjson.loads(capsys.readouterr().out)
    assert (result["valid"], result["met"], result["summary"]["tokensOut"]) == (True, True, 50 * 128)
    one, two = runs()

    assert run(["load", "list", "-o", "json"]) == 0
    listed = orjson.loads(capsys.readouterr().out)
    assert sorted(item["folder"] for item in listed) == [str(one), str(two)]
    assert {"build": "7"} in [item["tags"] for item in listed]

    assert run(["load", "report", str(one)]) == 0
    page = (one / "report.html").read_text()
    assert "Latency over time" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "").replace(echo, "")  # the report has no external resources
    assert run(["load", "report", str(one), "--format", "markdown", "-o", "-"]) == 0
    assert "| end to end |" in capsys.readouterr().out

    assert run(["load", "compare", str(one), str(one)]) == 0  # the differences depend on the load of the machine
    compared = capsys.readouterr().out
    assert "e2e p50" in compared
    assert "p99" not in compared  # of fifty requests it would be the slowest one
    assert run(["load", "sql", "SELECT run, count(*) AS many FROM requests GROUP BY run ORDER BY run", "-o", "json"]) == 0
    assert [item["many"] for item in orjson.loads(capsys.readouterr().out)] == [50, 50]


def test_missed_objective_fails_the_command(echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document(slo=["ttft p50 < 1us"])
    assert run(["load", "run", "-f", str(file), "--url", echo, "-q"]) == 1
    assert "MISSED: ttft p50 < 1us" in capsys.readouterr().out


def test_error_storm_fails_the_command(document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document(stages=[{"constant": 20, "for": "60s"}], stop={"over": "1s"})
    assert run(["load", "run", "-f", str(file), "-q"]) == 1
    shown = capsys.readouterr().out
    assert "INVALID: ended early: 100% of the last" in shown
    assert "× connect" in shown


def test_search_finds_a_limit(echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document()
    requests = [
        "load",
        "search",
        "-f",
        str(file),
        "--url",
        echo,
        "--from",
        "4",
        "--max",
        "10",
        "--for",
        "500ms",
        "-o",
        "json",
        "-q",
    ]
    assert run([*requests, "--slo", "ttft p50 < 10s"]) == 0
    result = orjson.loads(capsys.readouterr().out)
    assert (result["held"], result["failed"], [probe["rate"] for probe in result["probes"]]) == (10, None, [4, 8, 10])
    assert all(Path(probe["run"], "run.json").exists() for probe in result["probes"])


def shortened(name: str) -> dict[str, Any]:
    """An example that is shorter and slower; its relative paths are resolved."""
    (given,) = yaml_documents.load_path(EXAMPLES / f"{name}.yaml")
    spec: dict[str, Any] = given.data["spec"]
    for stage in spec["stages"]:
        stage["for"] = "700ms"
        if "poisson" in stage:
            stage["poisson"] = 20
    spec["warmUp"] = "100ms"
    spec["slo"] = ["errors < 1%"]  # latency on a busy machine is meaningless
    if "steps" in spec["stages"][0]:
        spec["stages"][0]["steps"]["rates"] = [10, 20]
    spec.pop("results", None)
    for place in (spec.get("prompts", {}), spec["target"].get("modelService", {})):
        for field in ("file", "trace"):
            if field in place:
                place[field] = str(EXAMPLES / place[field])
    return spec


ELSEWHERE = {"search", "chat-from-pods"}  # which have their own tests


@pytest.mark.parametrize("name", sorted({path.stem for path in EXAMPLES.glob("*.yaml")} - ELSEWHERE))
def test_examples(echo: str, name: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document(name, **shortened(name))
    assert run(["load", "run", "-f", str(file), "--url", echo, "-q", "-o", "json", "--on", "here", "--workers", "1"]) == 0, (
        capsys.readouterr()
    )
    summary = orjson.loads(capsys.readouterr().out)["summary"]
    assert summary["requests"] > 0
    assert summary["errorRate"] == 0


def test_search_example(echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = document("search", **shortened("search"))
    command = ["load", "search", "-f", str(file), "--url", echo, "--from", "5", "--max", "10", "--for", "600ms", "-q"]
    assert run(command) == 0
    assert "10 requests/s meet the objectives (the highest rate tested)" in capsys.readouterr().out


def test_killed_run_is_recovered(
    echo: str, document: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = document(stages=[{"constant": 20, "for": "60s"}])
    command = [sys.executable, "-m", "sliceworks", "load", "run", "-f", str(file), "--url", echo, "-q"]
    with subprocess.Popen(command, cwd=tmp_path) as running:
        rows = Path("load-tests")
        assert clock.wait_until(lambda: any(path.stat().st_size for path in rows.glob("*/worker-0.rows")), 60)
        [folder] = rows.iterdir()
        assert run(["load", "recover", str(folder)]) == 1
        assert "is still running" in capsys.readouterr().err
        running.kill()
    assert run(["load", "report", str(folder)]) == 1
    assert f"is incomplete\nhint: sliceworks load recover {folder}" in capsys.readouterr().err
    assert run(["load", "list"]) == 0
    assert f"sliceworks load recover {folder}" in capsys.readouterr().err
    assert run(["load", "recover", str(folder)]) == 1
    assert "INVALID: ended early: interrupted" in capsys.readouterr().out
    assert run(["load", "report", str(folder), "--format", "json", "-o", "-"]) == 0
    assert orjson.loads(capsys.readouterr().out)["summary"]["succeeded"] > 0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"slo": ["ttft < 1s"]}, "spec.slo[0]: ttft needs a statistic (p50, p99, mean or max), got 'ttft < 1s'"),
        ({"stages": [{"constant": 5}]}, "for is required"),
        ({"stages": [{"constant": 5, "users": 3, "for": "1s"}]}, "exactly one of constant, poisson"),
        ({"api": "openai"}, "spec.api: must be"),
        ({"target": {"url": "ftp://x"}}, "url: must be an HTTP URL such as"),
        ({"prompts": {"file": "none.jsonl"}}, "cannot read the prompts"),
        ({"stages": [{"replay": 1}]}, "replay: requires prompts.trace"),
        ({"warmUp": "5s"}, "warmUp: must be shorter"),
        ({"target": {"url": "http://127.0.0.1:1", "key": {"env": "NOT_THERE"}}}, "with the key is not set"),
        ({"workerz": {}}, "did you mean workers?"),
        ({"workers": {"where": "cluster"}}, "image: required for workers on a cluster"),
        ({"target": {"url": "http://a", "modelService": {"name": "b"}}}, "exactly one of url and modelService"),
        ({"target": {"modelService": {}}}, "exactly one of name and file"),
        ({"api": "oip-infer", "infer": {"inputs": [{"name": "x"}]}}, "infer.inputs[0] requires data or a shape"),
        (
            {"api": "oip-infer", "infer": {"inputs": [{"shape": [2], "datatype": "BF16"}]}},
            "values of datatype BF16 cannot be generated",
        ),
        ({"tokens": {"tokenizer": "none.json"}}, "cannot read the tokenizer"),
    ],
)
def test_invalid_documents_are_errors(
    document: Callable[..., Path], capsys: pytest.CaptureFixture[str], fields: dict[str, Any], problem: str
) -> None:
    assert run(["load", "run", "-f", str(document(**fields))]) == 1
    reported = capsys.readouterr().err
    assert problem in reported
    assert len(reported.splitlines()) <= 2
    assert not runs()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "pods cannot reach this machine at 127.0.0.1"),
        (["--url", "http://models.example", "--locust-csv"], "Locust's files and web UI need workers on this machine"),
    ],
)
def test_unsupported_options_of_pods_are_errors(
    document: Callable[..., Path], capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    file = document(workers={"where": "cluster", "image": "load-worker:1"})
    assert run(["load", "run", "-f", str(file), *options]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["load", "report", "nowhere"], "no run found in nowhere"),
        (["load", "report", __file__], f"no run found in {__file__}"),
        (["load", "recover", __file__], f"no run found in {__file__}"),
        (["load", "sql", "SELECT 1"], "no runs found in load-tests"),
        (["load", "compare", "a", "b"], "no run found in a"),
    ],
)
def test_missing_run_is_an_error(
    document: Callable[..., Path], capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    document()
    assert run(arguments) == 1
    assert problem in capsys.readouterr().err
