"""`train submit`: errors are one line and nothing is submitted; a valid job is shown with its price and submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.jobset_install import install_older_jobset
from tests.support.train_shell import ENVIRONMENT, EXAMPLES, TEAM, Shell, platform, send, with_machines

from sliceworks.base import clock, yaml_documents
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import Forbidden
from sliceworks.cli import main, train_client
from sliceworks.kube.resources import CLUSTER_QUEUE, LOCAL_QUEUE, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.kube.client import Client

pytestmark = pytest.mark.long(25)
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "Workload", "workloads")
JOB = EXAMPLES / "training-jobs" / "hello-one-slice.yaml"
FLAGS = ("--queue", "tpu-job-queue", "--type", "v4-32", "--image", "jax:1")
SECRET: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub", "namespace": TEAM}, "data": {"a": ""}}


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    shell = Shell(monkeypatch, capsys)
    yield shell
    shell.close()


def changed(tmp_path: Path, old: str, new: str) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.read_text().replace(old, new))
    return str(file)


async def stored(client: Client) -> list[str]:
    return [item["metadata"]["name"] for item in await train_client.list_jobsets(client, None)]


def test_job_is_checked_shown_and_submitted(train: Shell) -> None:
    output = train("submit", "-q", "-f", str(JOB))
    assert output.code == 0, output.err
    assert output.lines[0][-4:] == ["CHIPS", "USD/HOUR", "AHEAD", "WAIT"]
    assert output.lines[1][-4:] == ["16", "51.52", "0", "none"]
    assert train.on(stored) == ["hello-one-slice"]


def test_jobs_ahead_are_shown(train: Shell) -> None:
    async def busy(client: Client) -> None:
        await platform(client)
        await send(client, "hello-multi-slice")
        first = await send(client, "hello-one-slice")
        assert first["metadata"]["name"] == "hello-one-slice"

    train.ready(busy)
    output = train("submit", "-q", "second", *FLAGS, "--priority", "medium", "--", "true")
    assert output.lines[1][-2:] == ["1", "unknown"], output
    output = train("submit", "-q", "third", *FLAGS, "--priority", "high", "--", "true")
    assert output.lines[1][-2:] == ["0", "unknown"], output


async def _admitted(client: Client) -> set[str]:
    """The jobs that Kueue has admitted, a while later."""
    await clock.sleep(60)
    workloads = (await client.list_all(WORKLOADS)).items
    return {workload["metadata"]["ownerReferences"][0]["name"] for workload in workloads if is_condition_true(workload, "Admitted")}


def test_a_job_that_preempts_does_not_wait(train: Shell) -> None:
    flags = [*FLAGS, "--slices", "2"]
    for priority, name in (("low", "first"), ("high", "second")):
        output = train("submit", "-q", name, *flags, "--priority", priority, "--", "true")
        assert output.lines[1][-2:] == ["0", "none"], output
        assert train.on(_admitted) == {name}
    output = train("submit", "-q", "third", *flags, "--priority", "high", "--", "true")
    assert output.lines[1][-2:] == ["0", "unknown"], output


def test_a_job_that_borrows_does_not_wait(train: Shell) -> None:
    async def lent(client: Client) -> None:
        await platform(client)
        queues = (await client.list_all(CLUSTER_QUEUE)).items
        [spec] = [queue["spec"] for queue in queues if queue["metadata"]["name"] == "slices"]
        lender = {"kind": "ClusterQueue", "metadata": {"name": "lender"}, "spec": {**spec, "cohortName": "all"}}
        await client.create({"apiVersion": "kueue.x-k8s.io/v1beta2", **lender})
        await client.patch(CLUSTER_QUEUE, "slices", {"spec": {"cohortName": "all"}})
        await send(client, "hello-multi-slice")

    train.ready(lent)
    output = train("submit", "-q", "borrower", *FLAGS, "--priority", "low", "--", "true")
    assert output.lines[1][-2:] == ["0", "none"], output
    assert train.on(_admitted) >= {"borrower", "hello-multi-slice"}


def test_dry_run_submits_nothing(train: Shell) -> None:
    output = train("submit", "-q", "-f", str(JOB), "--dry-run", "server", "-o", "name")
    assert (output.code, output.out, train.on(stored)) == (0, "jobset/hello-one-slice\n", [])
    output = train("submit", "-f", str(JOB), "--dry-run", "client", "-o", "json")
    assert orjson.loads(output.out)["kind"] == "JobSet"


def test_flags_build_the_same_document_as_a_file(train: Shell, tmp_path: Path) -> None:
    flags = [*FLAGS, "--slices", "2", "--priority", "high", "--spot", "--env", "STEPS=10", "--env", "EMPTY=", "--restarts", "3"]
    flags += ["--secret", "TOKEN=hub/token", "--secret", "/keys=keys", "--label", "run=first", "--time-to-live", "24h"]
    flags += ["--mount", "/data=gs://bucket", "--mount", "/home=pvc:home", "--mount", "/share=nfs:10.0.0.2:/vol"]
    command = ["--", "python", "train.py", "--steps", "10"]
    output = train("submit", "first", *flags, "-o", "document", *command)
    assert output.code == 0, output.err
    file = tmp_path / "job.yaml"
    file.write_text(output.out)
    spec = yaml_documents.load_path(file)[0].data["spec"]
    assert spec["slices"] == {"type": "v4-32", "count": 2, "capacity": "spot"}
    assert spec["command"] == ["python", "train.py", "--steps", "10"]
    assert spec["env"] == {"STEPS": "10", "EMPTY": ""}
    assert spec["secrets"][1] == {"secret": "keys", "mountPath": "/keys"}
    assert spec["volumes"][2] == {"name": "volume-2", "mountPath": "/share", "nfs": {"server": "10.0.0.2", "path": "/vol"}}
    shown = [train("submit", *item, "--dry-run", "client", "-o", "yaml") for item in (["first", *flags], ["-f", str(file)])]
    direct = train("submit", "first", *flags, "--dry-run", "client", "-o", "yaml", *command)
    assert direct.out == shown[1].out
    assert shown[0].out != direct.out


def test_variables_from_files(train: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "variables"
    file.write_text("# steps\nSTEPS=10\nHERE\n\nTEXT=a=b\n")
    monkeypatch.setenv("HERE", "there")
    output = train("submit", "first", *FLAGS, "--env-file", str(file), "--env", "STEPS=20", "-o", "document")
    [document] = yaml_documents.load_all(output.out, "flags")
    assert document.data["spec"]["env"] == {"STEPS": "20", "HERE": "there", "TEXT": "a=b"}
    output = train("submit", "first", *FLAGS, "--env-file", str(tmp_path / "none"))
    assert (output.code, "No such file" in output.err) == (1, True)
    file.write_bytes(b"\xc0\xff")
    output = train("submit", "first", *FLAGS, "--env-file", str(file))
    assert (output.code, output.err) == (2, f"error: --env-file {file}: not valid UTF-8\n")


def test_capacity_flags_are_exclusive(train: Shell) -> None:
    output = train("submit", "first", *FLAGS, "--spot", "--reservation", "autumn")
    assert (output.code, output.err) == (2, "error: --spot and --reservation cannot be combined\n")


def test_script_path_is_relative_to_the_caller(train: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text("echo hello\n")
    output = train("submit", "first", *FLAGS, "--script", "run.sh", "--dry-run", "client", "-o", "json")
    job = orjson.loads(output.out)["spec"]["replicatedJobs"][0]
    assert job["template"]["spec"]["template"]["spec"]["containers"][0]["command"] == ["bash", "-c", "echo hello\n"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ("no job given", "NAME with --queue, --type and --image")),
        ((*FLAGS, "--", "python", "train.py"), ("no job given", "NAME with --queue, --type and --image")),
        (("first", *FLAGS, "python", "train.py"), ("unexpected extra arguments (python train.py)", "submit --help")),
        (("-f", str(JOB), "--spot"), ("-f cannot be combined with flags that describe the job", "edit the document, or remove -f")),
        (("first", "--env", "STEPS", *FLAGS), ("--env STEPS: expected NAME=VALUE", "")),
        (("first", "--mount", "/x=hdfs://y", *FLAGS), ("--mount /x=hdfs://y", "gs://BUCKET")),
        (("first", "--secret", "hub", *FLAGS), ("--secret hub: expected ENV=SECRET/KEY or /PATH=SECRET", "")),
    ],
)
def test_invalid_flags_are_usage_errors(train: Shell, arguments: tuple[str, ...], expected: tuple[str, str]) -> None:
    output = train("submit", *arguments)
    assert output.code == 2
    assert all(words in output.err for words in expected), output.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("first", "--queue", "q", "--type", "v4-33", "--image", "i"),
            ("error: --type: unknown accelerator 'v4-33'", "v4-32"),
        ),
        (("first", "--queue", "q", "--image", "i"), ("error: --type: ", "exactly one of type and accelerator")),
        (("first", "--type", "v4-32", "--image", "i"), ("error: --queue: spec.queue is required", "")),
        (("first", "--queue", "q", "--type", "v4-32"), ("error: --image: spec.image is required", "")),
        (("first", *FLAGS, "--topology", "2x2x2"), ("error: --topology: v4-32 has 16 chips", "2x2x4")),
        (("First", *FLAGS), ("error: NAME: ", "")),
        (("n" * 27, *FLAGS), ("error: NAME: the name", "use at most 26 characters")),
        (("first", *FLAGS, "--deadline", "soon"), ("error: --deadline: ", "")),
        (("first", *FLAGS, "--env", "1-2=x"), ("error: --env: ", "")),
        (("first", *FLAGS, "--script", "none.py"), ("error: --script: script none.py: No such file", "it is read from")),
    ],
)
def test_flags_are_validated_like_a_document(train: Shell, arguments: tuple[str, ...], expected: tuple[str, str]) -> None:
    output = train("submit", *arguments)
    assert output.code == 1
    assert all(words in output.err for words in expected), output.err


def test_type_must_be_in_the_environment(train: Shell) -> None:
    environment = ("--environment", str(ENVIRONMENT), "--dry-run", "client")
    assert train("submit", "-f", str(JOB), *environment).code == 0
    output = train("submit", "first", "--queue", "q", "--type", "v5p-32", "--image", "i", *environment)
    assert "has no pool of v5p-32" in output.err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, ""),
        (
            {"type: v4-32}": "type: v4-32, count: 3}"},
            "queue slices can never admit it: requests 48 google.com/tpu of v4-32, maximum is 32",
        ),
        ({"queue: tpu-job-queue": "queue: tpu-job-queu"}, "queue 'tpu-job-queu' not found in namespace tpu-training"),
        ({"namespace: tpu-training": "namespace: research"}, "queue 'tpu-job-queue' not found in namespace research"),
        ({"namespace: tpu-training": "namespace: product"}, "has no team with the namespace product"),
    ],
)
def test_job_must_fit_the_environment(train: Shell, tmp_path: Path, changes: dict[str, str], message: str) -> None:
    text = JOB.read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    (job := tmp_path / "job.yaml").write_text(text)
    output = train("submit", "-f", str(job), "--environment", str(ENVIRONMENT), "--dry-run", "client")
    assert (output.code, message in output.err) == (int(bool(message)), True), output.err


EXAMPLE_TYPES = {"v4": ("v4-32", "us-central2-b"), "v5e": ("v5litepod-16", "us-west4-a"), "v5p": ("v5p-32", "us-east5-a")}
"""Other types than the example environment's need its pool and zone changed."""


@pytest.mark.parametrize("job", sorted((EXAMPLES / "training-jobs").glob("*.yaml")), ids=lambda job: job.stem)
def test_example_fits_the_example_environment(train: Shell, tmp_path: Path, job: Path) -> None:
    text = ENVIRONMENT.read_text()
    if job.stem == "gpu":
        text = text.replace("us-central2-b", "us-central1-a").replace("us-central2", "us-central1")
        start, end = text.index("    tpu:\n"), text.index("  identities:")
        text = text[:start] + "    gpu:\n      l4: {machineType: g2-standard-4, nodes: 2}\n" + text[end:]
    else:
        type_name, zone = next((value for key, value in EXAMPLE_TYPES.items() if f"-{key}" in job.stem), EXAMPLE_TYPES["v4"])
        text = text.replace("v4-32", type_name).replace("us-central2-b", zone).replace("us-central2", zone[:-2])
    (environment := tmp_path / "environment.yaml").write_text(text)
    output = train("submit", "-f", str(job), "--environment", str(environment), "--dry-run", "client")
    assert output.code == 0, output.err


def test_queue_must_have_type_and_quota(train: Shell) -> None:
    output = train("submit", "-q", "first", "--queue", "tpu-job-queue", "--type", "v5p-32", "--image", "i")
    assert "error: --type: queue slices has no v5p-32" in output.err
    assert "hint: it has v4-32" in output.err
    output = train("submit", "-q", "first", *FLAGS, "--slices", "3")
    assert "--slices: queue slices can never admit it: requests 48 google.com/tpu of v4-32, maximum is 32" in output.err


def test_kueue_and_jobset_must_be_installed(train: Shell) -> None:
    train.ready(platform, workloads=False)
    for arguments, what in ((("submit", "-q", "-f", str(JOB)), "Kueue"), (("list",), "JobSet"), (("top",), "Kueue")):
        output = train(*arguments)
        assert (output.code, output.err.splitlines()) == (
            1,
            [f"error: {what} is not installed in this cluster", "hint: install it, or use --twin"],
        )


def test_jobset_must_have_all_fields_of_the_job(train: Shell, tmp_path: Path) -> None:
    async def ready(client: Client) -> None:
        await platform(client)
        await install_older_jobset(client)

    train.ready(ready)
    rules = "restarts: {max: 3, rules: [{exitCodes: [42], action: fail}, {exitCodes: [75], action: restart-for-free}]}"
    refused = train("submit", "-f", changed(tmp_path, "restarts: {max: 1}", rules))
    assert refused.code == 1
    assert 'unknown field "spec.failurePolicy.rules[0].onJobFailureMessagePatterns"' in refused.err
    assert "sliceworks doctor" in refused.err
    assert train.on(stored) == []


def test_queue_priority_and_namespace_must_exist(train: Shell, tmp_path: Path) -> None:
    output = train("submit", "-q", "-f", changed(tmp_path, "tpu-job-queue", "tpu-jobs-queue"))
    assert "job.yaml:8: queue 'tpu-jobs-queue' not found in namespace tpu-training" in output.err
    assert "hint: did you mean tpu-job-queue?" in output.err
    output = train("submit", "-q", "-f", changed(tmp_path, "priority: medium", "priority: hihg"))
    assert "job.yaml:9: priority 'hihg' not found" in output.err
    assert "hint: did you mean high?" in output.err
    output = train("submit", "-q", "-f", str(JOB), "-n", "nowhere")
    assert "error: namespace 'nowhere' not found" in output.err


def test_secrets_claims_and_accounts_must_exist(train: Shell) -> None:
    async def with_secret(client: Client) -> None:
        await platform(client)
        await client.create(SECRET)

    train.ready(with_secret)
    for flags, reported in (
        (("--secret", "TOKEN=hug/a"), "--secret: Secret 'hug' not found in namespace tpu-training"),
        (("--secret", "TOKEN=hub/b"), "--secret: key 'b' not found in Secret 'hub'"),
        (("--mount", "/data=pvc:home"), "--mount: PersistentVolumeClaim 'home' not found in namespace tpu-training"),
        (("--service-account", "missing"), "--service-account: ServiceAccount 'missing' not found in namespace tpu-training"),
    ):
        output = train("submit", "-q", "first", *FLAGS, *flags)
        assert (output.code, f"error: {reported}" in output.err) == (1, True), output.err
    assert train("submit", "-q", "first", *FLAGS, "--secret", "TOKEN=hub/a").code == 0


def test_namespace_excluded_by_queue_is_an_error(train: Shell) -> None:
    async def unlabelled(client: Client) -> None:
        await platform(client)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stray"}}
        await client.create(space)
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "tpu-job-queue"}}
        await client.create({**queue, "spec": {"clusterQueue": "slices"}}, "stray", resource=LOCAL_QUEUE)

    train.ready(unlabelled)
    output = train("submit", "-q", "first", *FLAGS, "-n", "stray")
    assert "--queue: queue slices does not accept namespace stray" in output.err


def test_duplicate_name_is_an_error(train: Shell) -> None:
    async def taken(client: Client) -> None:
        await platform(client)
        await send(client, "hello-one-slice")

    train.ready(taken)
    output = train("submit", "-q", "-f", str(JOB))
    assert "error: job hello-one-slice already exists in namespace tpu-training" in output.err
    assert "hint: choose another name, or run sliceworks train cancel" in output.err


def test_missing_read_permission_does_not_block_submission(train: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from sliceworks.kube.client import Client as Whole

    listed, created = Whole.list_all, Whole.create

    async def blind(self: Whole, resource: Any, *rest: Any, **options: Any) -> Any:
        if resource.group == "kueue.x-k8s.io" and resource.kind != "LocalQueue":
            raise Forbidden("not for you")
        return await listed(self, resource, *rest, **options)

    monkeypatch.setattr(Whole, "list_all", blind)
    output = train("submit", "-q", "-f", str(JOB))
    assert (output.code, output.lines[1][-2:]) == (0, ["unknown", "unknown"]), output.err

    async def refused(self: Whole, obj: Any, *rest: Any, **options: Any) -> Any:
        if obj["kind"] == "JobSet":
            raise Forbidden('jobsets.jobset.x-k8s.io is forbidden: User "ada" cannot create')
        return await created(self, obj, *rest, **options)

    monkeypatch.setattr(Whole, "create", refused)
    output = train("submit", "-q", "first", *FLAGS)
    assert output.code == 1
    assert "hint: pass your team's namespace with -n, or ask an administrator" in output.err


def test_document_of_another_kind_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["train", "submit", "-f", str(ENVIRONMENT), "--dry-run", "client"]) == 1
    assert "expected a TrainingJob, found Environment" in capsys.readouterr().err


def test_job_is_not_checked_against_an_invalid_environment(train: Shell, tmp_path: Path) -> None:
    (environment := tmp_path / "environment.yaml").write_text(ENVIRONMENT.read_text().replace("  research:\n", "  kube-system:\n"))
    output = train("submit", "-f", str(JOB), "--environment", str(environment), "--dry-run", "client")
    assert (output.code, "namespace kube-system is reserved for the system" in output.err) == (1, True), output.err
    assert "--skip" not in output.err


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("{queue: q, image: ':::', slices: {type: v4-16, count: 0}, colour: red}", ["colour", "slices.count", "image"]),
        ("{queue: q, image: i, slices: {type: v4-16}, deadline: 0.5s, cpu: '900'}", ["deadline", "cpu"]),
    ],
    ids=["of the schema", "of the hosts"],
)
def test_all_problems_of_a_document_are_printed(
    fields: str, expected: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"apiVersion: sliceworks.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: a}}\nspec: {fields}\n")
    assert main.run(["train", "submit", "-f", str(file), "--dry-run=client"]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == len(expected)
    assert all(f"spec.{field}" in line for field, line in zip(expected, errors, strict=True)), errors


def test_missing_cluster_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main.run(["train", "submit", "-q", "-f", str(JOB)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint: ")


def test_wait_ends_when_job_runs_or_finishes(train: Shell) -> None:
    train.ready(with_machines)
    output = train("submit", "-f", str(JOB), "-o", "name", "--wait=running", "--timeout", "10m")
    assert output.code == 0, output.err
    lines = output.err.splitlines()
    assert lines[-1].startswith("Waiting until hello-one-slice is running: done in")
    assert lines[-2].endswith("hello-one-slice running: 4 of 4 hosts are ready")
    output = train("wait", "hello-one-slice", "--timeout", "10m")
    assert (output.code, "hello-one-slice completed: " in output.err) == (0, True), output.err
    train("cancel", "hello-one-slice", "-y")
    output = train("submit", "-f", str(JOB), "-o", "name", "--wait", "--timeout", "10m")
    assert (output.code, "hello-one-slice completed: " in output.err) == (0, True), output.err


def test_wait_ends_when_job_fails_or_times_out(train: Shell) -> None:
    train.ready(with_machines)
    output = train("submit", "-f", str(JOB), "-o", "name", "--wait", "--timeout", "30s")
    assert (output.code, "error: hello-one-slice is not finished after 30 seconds: running" in output.err) == (3, True), output.err

    async def crashing(client: Client) -> None:
        await with_machines(client)
        await send(client, "hello-one-slice", fail="crash", fail_seconds="90")

    train.ready(crashing)
    output = train("wait", "hello-one-slice")
    assert (output.code, "error: hello-one-slice failed: jobset failed" in output.err) == (1, True), output.err
    assert "after 1 restart" in output.err


def test_pods_ready_timeout_below_steps_is_a_warning(train: Shell, tmp_path: Path) -> None:
    async def configured(client: Client) -> None:
        await platform(client)
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
        metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
        data = {"controller_manager_config.yaml": "waitForPodsReady: {timeout: 5m}"}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    train.ready(configured)
    file = changed(tmp_path, "spec:\n", "spec:\n  before: [{name: copy, image: x, estimate: 10m}]\n")
    output = train("submit", "-q", "-f", file)
    assert output.code == 0, output.err
    assert output.err.startswith("warning: spec.before: Kueue evicts the job if its slices are not ready within 5m")
    assert train("submit", "-q", "second", *FLAGS, "--dry-run", "server").err == ""


def test_pods_ready_timeout_of_an_environment_below_steps_is_a_warning(train: Shell, tmp_path: Path) -> None:
    file = changed(tmp_path, "spec:\n", "spec:\n  before: [{name: copy, image: x, estimate: 10m}]\n")
    environment = tmp_path / "environment.yaml"
    environment.write_text(ENVIRONMENT.read_text().replace("sharing: one-queue", "sharing: one-queue\n    readyWithin: 5m"))
    for within, warns in ((environment, True), (ENVIRONMENT, False)):
        output = train("submit", "-q", "-f", file, "--environment", str(within), "--dry-run", "client")
        warning = "warning: spec.before: Kueue evicts the job if its slices are not ready within 5m"
        assert (output.code, output.err.startswith(warning)) == (0, warns), output.err


_FITTING = ("hello-multi-slice", "hello-one-slice", "maxtext-v4", "maxtext-v4-multi", "prepare-train-evaluate")
_NEEDS = {"gpu": "l4-1", "maxtext-v5e": "v5litepod-16", "maxtext-v5p": "v5p-32"}


@pytest.mark.parametrize("file", sorted((EXAMPLES / "training-jobs").glob("*.yaml")), ids=lambda file: file.stem)
def test_examples_fit_the_training_environment_or_say_what_they_need(train: Shell, file: Path) -> None:
    if file.stem in _FITTING:
        output = train("submit", "-q", "-f", str(file), "--environment", str(ENVIRONMENT), "--dry-run", "server")
        assert output.code == 0, output.err
        return
    needed = _NEEDS[file.stem.removesuffix("-multi")]
    assert f"Needs an environment whose queue has {needed}" in file.read_text()
    for flags in ([], ["--environment", str(ENVIRONMENT)]):
        output = train("submit", "-q", "-f", str(file), "--dry-run", "server", *flags)
        assert output.code == 1
        assert (
            f"has no {needed}" in output.err or f"no pool of {needed}" in output.err or "no quota for nvidia.com/gpu" in output.err
        )
        assert "hint:" in output.err
