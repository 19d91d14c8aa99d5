"""Alerts and dashboards of the chart: every expression is valid and uses metrics that exist."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.real import triton
from tests.support.clusters import real_enabled
from tests.support.deployments import DEPLOY

from sliceworks.cli.main import ENTRIES

if TYPE_CHECKING:
    from pathlib import Path

CHART = DEPLOY / "charts" / "sliceworks"
RULES = sorted((CHART / "rules").glob("*.yaml"))
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
DOCUMENTED = set(re.findall(r"^\| `([\w:]+)` \|", (DEPLOY.parent / "docs" / "reference" / "metrics.md").read_text(), re.MULTILINE))
GPU_METRICS = {"nv_gpu_utilization", "nv_gpu_memory_used_bytes", "nv_gpu_memory_total_bytes"}
_SUFFIX = re.compile(r"_(bucket|sum|count)$")
real = pytest.mark.skipif(not real_enabled(), reason="needs promtool and Kueue's sources: SLICEWORKS_REAL=1")


def alerts(file: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]


def expressions(file: Path) -> list[str]:
    if file.suffix == ".yaml":
        return [rule["expr"] for rule in alerts(file)]
    return [target["expr"] for panel in json.loads(file.read_text())["panels"] for target in panel["targets"]]


def metric_names(expression: str) -> set[str]:
    """Names before a selector or a range, or inside parentheses; no functions, labels or keywords."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without) \([^)]*\)', " ", expression)
    return {name for name in re.findall(r"[a-zA-Z_:][\w:]*(?!\s*\(|\w)", bare) if "_" in name}


def test_metric_names_are_found() -> None:
    assert metric_names('sum by (le, a_b) (rate(x_bucket{c_d="e_f"}[5m])) / vector(0) > 1') == {"x_bucket"}


@pytest.mark.parametrize("file", [*RULES, *DASHBOARDS], ids=lambda file: file.name)
def test_expressions_use_existing_metrics(file: Path) -> None:
    used = {name for expression in expressions(file) for name in metric_names(expression)}
    assert used
    ours = {name for name in used if not name.startswith(("kueue_", "nv_"))}
    assert {name for name in ours if name not in DOCUMENTED and _SUFFIX.sub("", name) not in DOCUMENTED} == set()
    assert bool(ours) != (file.stem in ("queues", "triton"))


@pytest.mark.parametrize("file", RULES, ids=lambda file: file.name)
def test_alerts_say_what_to_do(file: Path) -> None:
    for rule in alerts(file):
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        for command in re.findall(r"`sliceworks (\w+)", rule["annotations"]["description"]):
            assert command in ENTRIES


def test_every_component_has_alerts_and_a_dashboard() -> None:
    assert (
        [file.stem for file in RULES] == [file.stem for file in DASHBOARDS] == ["gateway", "graphs", "queues", "slices", "triton"]
    )


@real
@pytest.mark.real
def test_promtool_accepts_alerts_and_panels(tmp_path: Path) -> None:
    from tests.real.prometheus import program

    panels = [
        {"record": f"panel:{index}", "expr": expression}
        for index, expression in enumerate(expression for file in DASHBOARDS for expression in expressions(file))
    ]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": panels}]}))
    command = [str(program()), "check", "rules", *map(str, RULES), str(tmp_path / "panels.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(panels)} rules found" in done.stdout


def rising_series(names: set[str]) -> str:
    """An hour of OpenMetrics in which every counter and gauge rises; histograms have two buckets."""
    lines = []
    for name in sorted(names):
        bounds = ('le="1"', 'le="+Inf"') if name.endswith("_bucket") else ("",)
        lines.append(f"# TYPE {name} unknown")
        for bound in bounds:
            labels = ",".join(
                part for part in ('namespace="a",model="m",gpu_uuid="g",name="n",job="j",instance="i"', bound) if part
            )
            lines += [f"{name}{{{labels}}} {minute + 1} {minute * 60}" for minute in range(61)]
    return "\n".join([*lines, "# EOF", ""])


@real
@pytest.mark.real
def test_prometheus_answers_every_alert_and_panel(tmp_path: Path) -> None:
    """All expressions are evaluated; those about Triton match its metrics, so that their alerts and panels are not empty."""
    from tests.real.prometheus import program

    queries = {expression: file.stem for file in (*RULES, *DASHBOARDS) for expression in expressions(file)}
    (tmp_path / "metrics.txt").write_text(rising_series({name for query in queries for name in metric_names(query)}))
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    create = [str(program()), "tsdb", "create-blocks-from", "openmetrics", str(tmp_path / "metrics.txt"), str(tmp_path / "data")]
    subprocess.run(create, check=True, capture_output=True)
    command = [str(program("prometheus")), f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    command += ["--web.listen-address=127.0.0.1:0", "--storage.tsdb.retention.time=100y"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as prometheus:
        try:
            assert prometheus.stderr is not None
            address, is_ready = "", False
            for line in prometheus.stderr:  # in any order
                address = match[1] if (match := re.search(r"Listening on.* address=(127.0.0.1:\d+)", line)) else address
                is_ready = is_ready or "Server is ready" in line
                if address and is_ready:
                    break
            for query, component in queries.items():
                bare = query.partition(" > ")[0] if component == "triton" else query  # without the threshold of an alert
                parameters = urllib.parse.urlencode({"query": bare, "time": 3600})
                with urllib.request.urlopen(f"http://{address}/api/v1/query?{parameters}") as response:
                    answer = json.load(response)
                assert answer["status"] == "success", query
                assert component != "triton" or answer["data"]["result"], query
        finally:
            prometheus.terminate()


def triton_families(exposition: str) -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each metric that a Triton exposes."""
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", exposition, re.MULTILINE))
    labels: dict[str, set[str]] = {name: set() for name in types}
    for name, pairs in re.findall(r"^(\w+)\{([^}]*)\}", exposition, re.MULTILINE):
        labels[name] |= set(re.findall(r'(\w+)="', pairs))
    return {name: (kind, labels[name]) for name, kind in types.items()}


@real
@pytest.mark.real
@pytest.mark.timeout(600)  # an environment may have to be created first
def test_triton_metrics_are_those_of_a_running_triton(tmp_path: Path) -> None:
    """Counters have a rate, gauges have none, and labels exist. GPU metrics are not compared: they need a GPU."""
    with triton.running(triton.repository(tmp_path / "models"), tmp_path / "log") as server:
        inputs = [{"name": name, "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]} for name in ("A", "B")]
        body = json.dumps({"inputs": inputs}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{server.url}/v2/models/add/infer", body), timeout=90).close()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics}/metrics", timeout=90) as response:
            families = triton_families(response.read().decode())
    for expression in (expression for file in (*RULES, *DASHBOARDS) if file.stem == "triton" for expression in expressions(file)):
        for name in metric_names(expression) - GPU_METRICS:
            kind, labels = families[name]
            assert kind == ("counter" if re.search(rf"rate\({name}\b", expression) else "gauge"), expression
            selected = set(re.findall(rf"{name}\{{(\w+)", expression))
            grouped = {label for by in re.findall(r"\bby \(([^)]*)\)", expression) for label in by.split(", ")} - {"namespace"}
            assert selected | grouped <= labels, expression


QUEUES = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'leader_election_master_status{{name="{lease}", job="ours", instance="a"}}', values: "1x60"}}
      - {{series: '{metric}{{name="q", job="ours", instance="a"}}', values: "{ours}x60"}}
      - {{series: 'leader_election_master_status{{name="c1f6bfd2.kueue.x-k8s.io", job="kueue", instance="b"}}', values: "1x60"}}
      - {{series: '{metric}{{name="other", job="kueue", instance="b"}}', values: "{others}x60"}}
    promql_expr_test:
      - expr: ALERTS{{alertname="{alert}", alertstate="firing"}}
        eval_time: 1h
        exp_samples: {expected}
"""


@real
@pytest.mark.real
@pytest.mark.parametrize("is_ours", [True, False], ids=["own queue", "queue of another controller"])
@pytest.mark.parametrize(
    ("alert", "metric", "lease"),
    [
        ("GraphsReconcileStuck", "workqueue_longest_running_processor_seconds", "controller.kro.run"),
        ("GraphsQueueBacklog", "workqueue_depth", "controller.kro.run"),
        ("SlicesReconcileStuck", "workqueue_longest_running_processor_seconds", "ecaf1259.google.com"),
    ],
)
def test_alerts_about_work_queues_are_about_our_controllers(
    tmp_path: Path, alert: str, metric: str, lease: str, is_ours: bool
) -> None:
    from tests.real.prometheus import program

    [rules] = [file for file in RULES if f"alert: {alert}\n" in file.read_text()]
    labels = f'ALERTS{{alertname="{alert}", alertstate="firing", name="q", severity="warning"}}'
    (tmp_path / "test.yaml").write_text(
        QUEUES.format(
            rules=rules,
            alert=alert,
            metric=metric,
            lease=lease,
            ours=9000 if is_ours else 0,
            others=0 if is_ours else 9000,
            expected=json.dumps([{"labels": labels, "value": 1}] if is_ours else []),
        )
    )
    command = [str(program()), "test", "rules", str(tmp_path / "test.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@real
@pytest.mark.real
def test_queue_metrics_are_those_of_kueue() -> None:
    from tests.real.build import module_folder
    from tests.real.programs import PROGRAMS

    source = (module_folder(PROGRAMS["kueue"], "sigs.k8s.io/kueue") / "pkg" / "metrics" / "metrics.go").read_text()
    files = [file for file in (*RULES, *DASHBOARDS) if file.stem == "queues"]
    used = {_SUFFIX.sub("", name) for file in files for expression in expressions(file) for name in metric_names(expression)}
    assert {name for name in used if f'"{name.removeprefix("kueue_")}"' not in source} == set()
