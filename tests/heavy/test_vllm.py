"""A real vLLM behind our gateway: its flags, responses, metrics and shutdown.

Its output is recorded in `tests/contract/goldens/vllm.json`, which light tests compare with; `SLICEWORKS_RECORD=1` rewrites it. The
tests of this file share one server and run in order: the last of them stops it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from tests.heavy import vllm_server
from tests.real.processes import Process, free_port
from tests.support import goldens
from tests.support.model_twins import model_twin
from tests.support.vllm_goldens import ASKED, LETTER, plain

from sliceworks.base import clock, yaml_documents
from sliceworks.cli import main
from sliceworks.serving.vllm import METRIC, QUANTIZATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(900)
LONG = {"model": "tiny", "prompt": "a slice", "max_tokens": 3500, "ignore_eos": True, "stream": True}
_METHODS = "from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS as known; print('METHODS', *known)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[vllm_server.Vllm]:
    with vllm_server.running(home) as result:
        yield result


@pytest.fixture(scope="module")
def gateway(server: vllm_server.Vllm, home: Path) -> Iterator[str]:
    """Our gateway in front of it, as a process."""
    port, admin = free_port(), free_port()
    models = [{"name": "tiny", "backends": [{"kind": "openai", "url": server.url}]}]
    spec = {"anonymous": True, "listen": {"port": port}, "admin": {"port": admin, "publicMetrics": True}, "models": models}
    document = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "gateway"}, "spec": spec}
    (home / "gateway.yaml").write_text(yaml_documents.dump_all([document]))
    command = [sys.executable, "-m", "sliceworks", "gateway", "run", "--quiet", "-f", str(home / "gateway.yaml")]
    process = Process("gateway", command, home / "gateway.log")
    try:
        process.wait_until(lambda: _answers(f"http://127.0.0.1:{port}/healthz"), 30)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


def spoken(home: Path, *words: str) -> str:
    """The output of its interpreter."""
    command = [str(vllm_server.python()), *words]
    return subprocess.run(command, env=vllm_server.environment(home), check=True, capture_output=True, text=True).stdout


def test_flags_and_quantizations_exist(home: Path) -> None:
    goldens.check("vllm", "version", vllm_server.VERSION, real=True)
    flags = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", spoken(home, "-m", vllm_server.MODULE, "--help=all"))))
    goldens.check("vllm", "flags", flags, real=True)
    methods = next(line.split()[1:] for line in spoken(home, "-c", _METHODS).splitlines() if line.startswith("METHODS"))
    goldens.check("vllm", "quantizations", sorted(methods), real=True)
    assert {name for kind in QUANTIZATIONS.values() for name in kind.values()} <= set(methods)


@pytest.mark.parametrize("case", list(ASKED))
def test_responses_pass_the_gateway_unchanged(case: str, server: vllm_server.Vllm, gateway: str) -> None:
    path, body = ASKED[case]
    own, passed = (answered(base + path, body) for base in (server.url, gateway))
    assert own == passed
    goldens.check("vllm", case, own, real=True)


def answered(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """A response whose tokens are separate events: tokens that arrive faster than they are sent are merged."""
    for _ in range(50):
        result = plain(httpx.post(url, json=body, timeout=120))
        if not body.get("stream") or result["text"].count(LETTER) == body["max_tokens"]:
            return result
    raise AssertionError(f"tokens were always merged: {result}")


def test_metrics_have_the_expected_names(server: vllm_server.Vllm) -> None:
    text = httpx.get(f"{server.url}/metrics", timeout=10).text
    kinds = dict(re.findall(r"^# TYPE (vllm:\S+(?<!_created)) (\S+)$", text, re.MULTILINE))
    goldens.check("vllm", "numbers", kinds, real=True)
    assert kinds[METRIC] == "gauge"


def test_openai_client_through_the_gateway(gateway: str) -> None:
    client = openai.OpenAI(base_url=f"{gateway}/v1", api_key="none", max_retries=0)
    request: Any = [{"role": "user", "content": "a slice"}]
    choices = client.chat.completions.create(model="tiny", messages=request, n=3, max_tokens=4, logprobs=True).choices
    assert [item.index for item in choices] == [0, 1, 2]
    assert choices[0].logprobs is not None
    whole = client.chat.completions.create(model="tiny", messages=request, temperature=0, max_tokens=40)
    output, usage = "", None
    options: Any = {"include_usage": True}
    for chunk in client.chat.completions.create(
        model="tiny", messages=request, temperature=0, max_tokens=40, stream=True, stream_options=options
    ):
        output += "".join(item.delta.content or "" for item in chunk.choices)
        usage = chunk.usage or usage
    assert output == whole.choices[0].message.content  # although characters span several tokens
    assert usage == whole.usage
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    reported = client.chat.completions.create(model="tiny", messages=request, response_format=form, max_tokens=200)
    assert re.sub(r"\s", "", reported.choices[0].message.content or "") in ('{"a":true}', '{"a":false}')
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "slice " * 9000}])


def test_disconnected_request_is_cancelled(server: vllm_server.Vllm, gateway: str) -> None:
    with httpx.stream("POST", f"{gateway}/v1/completions", json=LONG, timeout=60) as response:
        next(response.iter_bytes())
        while_asked = server.number("vllm:generation_tokens_total")
    assert clock.wait_until(lambda: server.number("vllm:num_requests_running") == 0, 5)
    after = server.number("vllm:generation_tokens_total")
    assert after < while_asked + LONG["max_tokens"]  # type: ignore[operator]
    assert not clock.wait_until(lambda: server.number("vllm:generation_tokens_total") != after, 1.0)


def test_shutdown_finishes_responses(server: vllm_server.Vllm, gateway: str) -> None:
    ending = threading.Timer(1.0, server.terminate)
    request = {**LONG, "stream_options": {"include_usage": True}}
    with httpx.stream("POST", f"{gateway}/v1/completions", json=request, timeout=60) as response:
        ending.start()
        events = [line for line in response.iter_lines() if line]
    assert events[-1] == "data: [DONE]"
    assert f'"completion_tokens":{LONG["max_tokens"]}' in events[-2]
    assert clock.wait_until(lambda: not server.process.alive(), 30 + 20)
    refused = httpx.post(f"{gateway}/v1/completions", json={**LONG, "stream": False}, timeout=30)
    assert refused.json()["error"]["code"] in {"no_backend", "backend_failed"}


SERVICE = """\
apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {{name: {name}, namespace: default}}
spec:
  engine: vllm
  accelerator: {{type: l4-1}}
  cpu: 100m
  memory: 1Gi
  command: [{python}, -m, {module}]
  args: [{flag}, --host=$(POD_IP)]
  env: {{{variables}}}
  drainTimeout: 20s
  vllm: {{model: {{name: tiny, source: {source}}}, dtype: float32, maxModelLen: 512}}
"""


def deployed(folder: Path, name: str, *, flag: str = "--enforce-eager", source: str = "", within: int = 300) -> int:
    """Deploy a service of the twin whose pod is a real vLLM; returns the exit code."""
    variables = ", ".join(f"{key}: '{value}'" for key, value in vllm_server.ROOM.items())
    given = {"python": vllm_server.python(), "module": vllm_server.MODULE, "source": source or vllm_server.folder() / "model"}
    (folder / "model.yaml").write_text(SERVICE.format(name=name, flag=flag, variables=variables, **given))
    return models("deploy", "-f", str(folder / "model.yaml"), "-y", "--timeout", f"{within}s")


def models(*words: str) -> int:
    return main.run(["models", *words, "--twin", "--quiet"])


def test_service_of_the_twin_runs_a_real_vllm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with model_twin(tmp_path):
        assert deployed(tmp_path, "tiny") == 0
        assert models("list") == 0
        assert re.search(r"tiny +vllm +tiny +1 × l4-1 +1/1 +ready", capsys.readouterr().out)
        assert models("invoke", "tiny", "--max-tokens", "3", "a slice") == 0
        assert capsys.readouterr().out.strip()
        assert models("delete", "tiny", "-y") == 0


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"flag": "--no-such-flag"}, "unrecognized arguments: --no-such-flag"),
        ({"source": "/there/is/no/model"}, "/there/is/no/model"),
    ],
)
def test_startup_failure_is_explained(
    wrong: dict[str, str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with model_twin(tmp_path):
        assert deployed(tmp_path, "tiny", **wrong, within=60) != 0
        error = capsys.readouterr().err
        assert "container vllm exited with code" in error
        assert expected in error
        assert models("delete", "tiny", "-y") == 0
