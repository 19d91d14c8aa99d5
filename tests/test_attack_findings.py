"""What an attack on version 0.1 broke, one test per finding (S1 to S12). Tables of variants and more attacks are next to the code.

`tests/heavy/attack` repeats them on running servers.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from tests.console.test_auth import HTML, GuardedApp
from tests.packaging.test_images import DEPLOY, ROOT, STAGES, pinned
from tests.serving.test_compile import pods
from tests.support import process_pods
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.gateways import chat, document, gateway, until, upstream
from tests.support.model_services import example
from tests.support.process_pods import ended, pod, running
from tests.support.stores import NODES, durable, put
from tests.support.stores import run as run_virtual
from tests.support.turns import measured_turns, work_seconds
from tests.support.twin_server import echo, serving
from tests.twin import test_longest_turn as attacks

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.base.transport import Request
from sliceworks.cli.main import run
from sliceworks.serving.compiler import manifests
from sliceworks.serving.gateway.state import read_document
from sliceworks.twin import main as twin_main
from sliceworks.twin.apiserver.auth import certificates
from sliceworks.twin.apiserver.http_server import Limits
from sliceworks.twin.nodes.runtime import container_log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.client import Client
    from sliceworks.twin.apiserver.auth.authentication import User

DEEP = "[" * 100_000
CHAT = "/v1/chat/completions"


async def is_live(twin: EmbeddedTwin) -> bool:
    return (await twin.cluster.api.handle(Request("GET", "/livez", (), {}, b""))).status == 200


def test_s1_settings_of_a_manager_do_not_end_the_twin(tmp_path: Path) -> None:
    """Neither while it runs nor when it starts again with the same objects."""
    job = {"name": "j", "template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}}
    rules = [{"name": "r", "action": "RestartJob"}]
    jobset = {"metadata": {"name": "a"}, "spec": {"replicatedJobs": [job], "failurePolicy": {"rules": rules}}}

    async def attack(twin: EmbeddedTwin) -> None:
        for manager in ("kueue", "jobset"):
            await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": f"{manager}-system"}})
            data = {"controller_manager_config.yaml": f"# RestartJob\n{DEEP}"}
            body = {"metadata": {"name": f"{manager}-manager-config"}, "data": data}
            await twin.do("POST", f"/api/v1/namespaces/{manager}-system/configmaps", body)
        status, answer = await twin.ask("POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", jobset)
        assert (status, "RestartJob" in answer["message"]) == (400, True)
        await twin.quiet()
        assert await is_live(twin)

    async def restart(twin: EmbeddedTwin) -> None:
        assert "data" in await twin.do("GET", "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config")
        assert await is_live(twin)

    for main in (attack, restart):
        run_on_twin(main, durable(tmp_path), workloads=True)


@pytest.mark.parametrize("command", ["train submit -f", "env plan -f", "load run -f", "gateway run -f"])
def test_s2_document_does_not_end_a_command(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text(DEEP)
    assert run([*command.split(), str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {file}:1: nested more than 100 levels deep")


def test_s2_document_does_not_end_a_gateway_and_its_streams(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(token_time=0.02, models=("*",)) as backend:
            head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "g"}}
            models = [{"name": "m", "backends": [{"kind": "echo", "url": backend.url}]}]
            file.write_text(yaml_documents.dump({**head, "spec": {"listen": {"port": 0}, "anonymous": True, "models": models}}))
            async with gateway(read_document(file).spec, file) as gate:
                stream = asyncio.create_task(gate.request("POST", CHAT, chat("a " * 20, stream=True)))
                await until(lambda: backend.engine.received == 1)
                file.write_text(DEEP)
                with pytest.raises(SliceworksError, match="nested more than 100 levels deep"):
                    await gate.program.reload()
                assert (await stream).body.endswith(b"data: [DONE]\n\n")

    clock.run(main())


@pytest.mark.parametrize(
    "attack", [attacks.patterns, attacks.owners, attacks.replicas], ids=["s3_patterns", "s5_owners", "s6_replicas"]
)
def test_api_answers_during(attack: Callable[[EmbeddedTwin], Awaitable[None]]) -> None:
    """No turn of the event loop takes longer than a health check may, about 0.1 s."""

    async def main(twin: EmbeddedTwin) -> None:
        await asyncio.sleep(0)
        unit = work_seconds()
        with measured_turns() as turns:
            await attack(twin)
        assert max(turns) < 10 * max(unit, work_seconds())
        assert await is_live(twin)

    run_on_twin(main, workloads=True)


def test_s4_rules_have_a_budget_of_cost_and_memory() -> None:
    """Costly for any value: refused at definition. Costly for this value: stopped while it is evaluated."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def main(twin: EmbeddedTwin) -> None:
        for number, (rule, status) in enumerate(
            (("self.s.split('').map(x, self.s.split('').join(x)).size() >= 0", 422), ("self.s.replace('a', self.s) != ''", 201))
        ):
            validations = {"x-kubernetes-validations": [{"rule": rule}]}
            assert await attacks.define(twin, f"Rule{number}", {"s": {"type": "string"}}, **validations) == status
        assert await attacks.create(twin, "Rule1", {"s": "a" * 12_000}) == 422
        assert await is_live(twin)

    run_on_twin(main)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


KEYS = [{"name": "a", "sha256": hashlib.sha256(b"ka").hexdigest(), "models": ["gemma"]}]


@pytest.mark.parametrize(
    "fields", [b'"model":"gemma","Model":"llama"', b'"model":"llama","model":"gemma"', b'"model":"gemma","model":"llama"']
)
def test_s7_duplicate_and_case_variant_keys_are_refused(fields: bytes) -> None:
    async def main() -> None:
        async with upstream(models=("*",)) as backend:
            models = [{"name": name, "backends": [{"kind": "echo", "url": backend.url}]} for name in ("gemma", "llama")]
            async with gateway(document(backend.url, keys=KEYS, models=models)) as gate:
                body = b'{"messages":[{"role":"user","content":"w"}],' + fields + b"}"
                assert (await gate.request("POST", CHAT, body, key="ka")).status == 400
                assert backend.engine.received == 0

    clock.run(main())


@pytest.mark.parametrize("fields", [{"n": 100}, {"max_tokens": 0}, {"n": 3, "max_tokens": 5}, {"n": 100, "max_tokens": 12}])
def test_s8_token_limit_counts_all_completions(fields: dict[str, int]) -> None:
    async def main() -> None:
        async with upstream() as backend, gateway(document(backend.url, limits={"maxTokens": 12})) as gate:
            assert (await gate.request("POST", CHAT, {**chat("w"), **fields})).status == 400
            assert backend.engine.received == 0

    clock.run(main())


def test_s9_converter_loads_no_code_from_checkpoints() -> None:
    locked = pinned(DEPLOY / "requirements" / "converter.txt")
    assert not {"tensorflow", "tensorflow-cpu", "paxml"} & locked.keys()
    torch = re.search(r"/torch-(\d+)\.(\d+)", STAGES["converter"])
    assert torch is not None
    assert (int(torch[1]), int(torch[2])) >= (2, 6), "CVE-2025-32434"
    assert "\nENV TORCH_FORCE_WEIGHTS_ONLY_LOAD=1\n" in STAGES["converter"]
    assert re.search(r"^ARG PYTHON=python:3\.1[3-9]", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    (convert,) = [
        job for job in manifests(example("llama2-7b-saxml")) if job["kind"] == "Job" and "convert" in job["metadata"]["name"]
    ]
    (pod_spec,) = pods([convert])
    assert pod_spec["securityContext"]["runAsNonRoot"] is True
    assert all(container["securityContext"]["capabilities"] == {"drop": ["ALL"]} for container in pod_spec["containers"])


def test_s10_escalation_checks_of_large_roles_take_short_turns() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await asyncio.sleep(0)
        unit = work_seconds()
        with measured_turns() as turns:
            await attacks.roles(twin)
        assert max(turns) < 10 * max(unit, work_seconds()), "about 0.1 s"

    run_on_twin(main)


def test_s10_bodies_of_clients_without_a_credential_are_not_read(tmp_path: Path) -> None:
    def refuse(_request: Request, _user: User | None) -> None:
        raise SliceworksError("no credential")

    with serving(echo, certificates.ensure(tmp_path), Limits(body=3 << 20), admit=refuse) as server:
        clients = [server.connect() for _ in range(20)]
        for client in clients:
            client.get("/a", "Content-Length: 3000000", method="POST").send(b"x" * 10_000)
            assert client.head().status >= 400, "before the body has arrived"
        for client in clients:
            client.socket.close()


def test_s10_pattern_of_parentheses_is_invalid() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        pattern = "(" * 20_000 + ")" * 20_000
        assert await attacks.define(twin, "Nested", {"s": {"type": "string", "pattern": pattern}}) == 422

    run_on_twin(main)


def test_s10_files_of_a_twin_are_checked(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("")
    with pytest.raises(SliceworksError, match="token: "):
        twin_main._token(tmp_path / "token")
    certificates.ensure(tmp_path)
    header = (tmp_path / "ca.pem").read_text().partition("\n")[0]
    (tmp_path / "ca.pem").write_text(f"{header}\ngarbage")
    with pytest.raises(SliceworksError, match=r"ca\.pem: not a certificate with its key"):
        certificates.server_context(certificates.ensure(tmp_path))


def test_s10_flipped_byte_in_the_store_is_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        store = durable(tmp_path)
        put(store, "n", "a value", resource=NODES)
        await store.wait_durable()
        store.close()

    run_virtual(main())
    content = bytearray((tmp_path / "store.db").read_bytes())
    content[content.index(b'"a value"')] = ord("x")
    (tmp_path / "store.db").write_bytes(content)
    with pytest.raises(SliceworksError, match="the store is damaged: revision"):
        durable(tmp_path)


def test_s10_document_of_100_000_fields_is_refused_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit, file = work_seconds(), tmp_path / "queues.yaml"
    file.write_text("kind: TrainingJob\nspec:\n" + "".join(f"  field{number}: {number}\n" for number in range(100_000)))
    start = time.thread_time()
    assert run(["train", "submit", "-f", str(file)]) == 1
    assert time.thread_time() - start < 300 * unit, "about 3 s"
    assert "\n" in capsys.readouterr().err
    with pytest.raises(InvalidDocument):
        yaml_documents.load_all("{" * 200, "f.yaml")


def test_s11_processes_end_with_their_pod_and_their_logs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_log, "_MAX_BYTES", 100_000)
    mark = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$$$ > {mark}.new; mv {mark}.new {mark}; exec sleep 1000' & "
    script += f"while [ ! -e {mark} ]; do sleep 0.05; done; yes line | head -c 1000000"

    async def main(client: Client) -> None:
        await client.create(pod("p", "sh", "-c", script, grace=0))
        await process_pods.until(client, "p", ended)
        assert not is_alive(int(mark.read_text()))
        sizes = [file.stat().st_size for file in (tmp_path / "pods").rglob("*.log*")]
        assert len(sizes) == 5
        assert sum(sizes) < 5 * 500_000, "a file ends with the chunk that fills it"

    running(main, tmp_path / "pods")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_s11_security_page_does_not_promise_isolation() -> None:
    assert "**RBAC does not protect against pod creators" in (ROOT / "SECURITY.md").read_text()


def test_s12_console_has_nonces_and_sessions_that_end() -> None:
    app = GuardedApp()
    page = app.request("/", accept=HTML)
    scripts = page.headers["content-security-policy"].partition("script-src ")[2].partition(";")[0]
    nonce = scripts.partition("'nonce-")[2].partition("'")[0]
    assert ("'unsafe-inline'" in scripts, page.body.count(b"<script")) == (False, 1)
    assert f'<script nonce="{nonce}">'.encode() in page.body
    cookie = app.login().cookie
    assert app.request("/", cookie=cookie).status == 200
    app.now += 8 * 3600 + 1
    assert app.request("/", cookie=cookie).status == 401


def test_s12_admin_port_has_a_network_policy_and_images_have_digests() -> None:
    objects = [loaded.data for loaded in yaml_documents.load_path(DEPLOY / "gateway" / "install.yaml")]
    (policy,) = [obj for obj in objects if obj["kind"] == "NetworkPolicy"]
    admitted = {port["port"]: rule["from"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    assert all("namespaceSelector" in source for source in admitted["admin"]), "not all pods of the namespace"
    workflow = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    assert "make push-images" in workflow
    recipe = (ROOT / "Makefile").read_text().partition("\npush-images:")[2].partition("\n\n")[0]
    assert all(part in recipe for part in ("--sbom=true", "--provenance=mode=max", "$(SIGN)", "containerimage.digest"))
    assert orjson.loads((DEPLOY / "charts" / "sliceworks" / "values.schema.json").read_bytes())["properties"]["image"]
