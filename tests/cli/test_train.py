"""`train submit`: what is wrong is told in one line before anything is sent; what is right is shown with its price, and sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.train_shell import ENVIRONMENT, EXAMPLES, TEAM, Shell, platform, send, with_machines

from sliceworks.base import yamls
from sliceworks.base.errors import Forbidden
from sliceworks.cli import main, train_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.kube.client import Client

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
    return [each["metadata"]["name"] for each in await train_cluster.all_jobsets(client, None)]


def test_a_job_is_checked_shown_and_sent(train: Shell) -> None:
    said = train("submit", "-q", "-f", str(JOB))
    assert said.code == 0, said.err
    assert said.lines[0][-4:] == ["CHIPS", "USD/HOUR", "AHEAD", "WAIT"]
    assert said.lines[1][-4:] == ["16", "51.52", "0", "none"]
    assert train.on(stored) == ["hello-one-slice"]


def test_who_is_ahead_is_said(train: Shell) -> None:
    async def busy(client: Client) -> None:
        await platform(client)
        await send(client, "hello-multi-slice")
        first = await send(client, "hello-one-slice")
        assert first["metadata"]["name"] == "hello-one-slice"

    train.ready(busy)
    said = train("submit", "-q", "second", *FLAGS, "--priority", "medium", "--", "true")
    assert said.lines[1][-2:] == ["1", "unknown"], said
    said = train("submit", "-q", "third", *FLAGS, "--priority", "high", "--", "true")
    assert said.lines[1][-2:] == ["0", "unknown"], said


def test_dry_runs_send_nothing(train: Shell) -> None:
    said = train("submit", "-q", "-f", str(JOB), "--dry-run", "server", "-o", "name")
    assert (said.code, said.out, train.on(stored)) == (0, "jobset/hello-one-slice\n", [])
    said = train("submit", "-f", str(JOB), "--dry-run", "client", "-o", "json")
    assert orjson.loads(said.out)["kind"] == "JobSet"


def test_flags_make_the_same_document_as_a_file(train: Shell, tmp_path: Path) -> None:
    flags = [*FLAGS, "--slices", "2", "--priority", "high", "--spot", "--env", "STEPS=10", "--env", "EMPTY=", "--restarts", "3"]
    flags += ["--secret", "TOKEN=hub/token", "--secret", "/keys=keys", "--label", "run=first", "--time-to-live", "24h"]
    flags += ["--mount", "/data=gs://bucket", "--mount", "/home=pvc:home", "--mount", "/share=nfs:10.0.0.2:/vol"]
    command = ["--", "python", "train.py", "--steps", "10"]
    said = train("submit", "first", *flags, "-o", "document", *command)
    assert said.code == 0, said.err
    file = tmp_path / "job.yaml"
    file.write_text(said.out)
    spec = yamls.load_path(file)[0].data["spec"]
    assert spec["slices"] == {"type": "v4-32", "count": 2, "capacity": "spot"}
    assert spec["command"] == ["python", "train.py", "--steps", "10"]
    assert spec["env"] == {"STEPS": "10", "EMPTY": ""}
    assert spec["secrets"][1] == {"secret": "keys", "mountPath": "/keys"}
    assert spec["volumes"][2] == {"name": "volume-2", "mountPath": "/share", "nfs": {"server": "10.0.0.2", "path": "/vol"}}
    shown = [train("submit", *each, "--dry-run", "client", "-o", "yaml") for each in (["first", *flags], ["-f", str(file)])]
    direct = train("submit", "first", *flags, "--dry-run", "client", "-o", "yaml", *command)
    assert direct.out == shown[1].out
    assert shown[0].out != direct.out


def test_variables_come_from_files_too(train: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "variables"
    file.write_text("# steps\nSTEPS=10\nHERE\n\nTEXT=a=b\n")
    monkeypatch.setenv("HERE", "there")
    said = train("submit", "first", *FLAGS, "--env-file", str(file), "--env", "STEPS=20", "-o", "document")
    [document] = yamls.load_all(said.out, "flags")
    assert document.data["spec"]["env"] == {"STEPS": "20", "HERE": "there", "TEXT": "a=b"}
    said = train("submit", "first", *FLAGS, "--env-file", str(tmp_path / "none"))
    assert (said.code, "No such file" in said.err) == (1, True)
    file.write_bytes(b"\xc0\xff")
    said = train("submit", "first", *FLAGS, "--env-file", str(file))
    assert (said.code, said.err) == (2, f"error: --env-file {file}: is not UTF-8 text\n")


def test_capacity_is_said_once(train: Shell) -> None:
    said = train("submit", "first", *FLAGS, "--spot", "--reservation", "autumn")
    assert (said.code, said.err) == (2, "error: --spot and --reservation: slices are of one or the other\n")


def test_a_script_is_found_beside_the_caller(train: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text("echo hello\n")
    said = train("submit", "first", *FLAGS, "--script", "run.sh", "--dry-run", "client", "-o", "json")
    job = orjson.loads(said.out)["spec"]["replicatedJobs"][0]
    assert job["template"]["spec"]["template"]["spec"]["containers"][0]["command"] == ["bash", "-c", "echo hello\n"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), ("which job?", "NAME with --queue, --type and --image")),
        ((*FLAGS, "--", "python", "train.py"), ("which job?", "NAME with --queue, --type and --image")),
        (("first", *FLAGS, "python", "train.py"), ("unexpected extra arguments (python train.py)", "submit --help")),
        (("-f", str(JOB), "--spot"), ("-f and flags both say what the job is", "leave -f out")),
        (("first", "--env", "STEPS", *FLAGS), ("--env STEPS: NAME=VALUE is wanted", "")),
        (("first", "--mount", "/x=hdfs://y", *FLAGS), ("--mount /x=hdfs://y", "gs://BUCKET")),
        (("first", "--secret", "hub", *FLAGS), ("--secret hub: ENV=SECRET/KEY or /PATH=SECRET is wanted", "")),
    ],
)
def test_wrong_flags_are_wrong_usage(train: Shell, arguments: tuple[str, ...], told: tuple[str, str]) -> None:
    said = train("submit", *arguments)
    assert said.code == 2
    assert all(words in said.err for words in told), said.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("first", "--queue", "q", "--type", "v4-33", "--image", "i"),
            ("error: --type: no accelerator is called 'v4-33'", "v4-32"),
        ),
        (("first", "--queue", "q", "--image", "i"), ("error: --type: ", "give a type")),
        (("first", "--type", "v4-32", "--image", "i"), ("error: --queue: spec.queue is required", "")),
        (("first", "--queue", "q", "--type", "v4-32"), ("error: --image: spec.image is required", "")),
        (("first", *FLAGS, "--topology", "2x2x2"), ("error: --topology: v4-32 has 16 chips", "2x2x4")),
        (("First", *FLAGS), ("error: NAME: ", "")),
        (("n" * 27, *FLAGS), ("error: NAME: the name", "take a name of 26 characters at most")),
        (("first", *FLAGS, "--deadline", "soon"), ("error: --deadline: ", "")),
        (("first", *FLAGS, "--env", "1-2=x"), ("error: --env: ", "")),
        (("first", *FLAGS, "--script", "none.py"), ("error: --script: script none.py: No such file", "it is looked for in")),
    ],
)
def test_what_flags_say_is_checked_like_a_document(train: Shell, arguments: tuple[str, ...], told: tuple[str, str]) -> None:
    said = train("submit", *arguments)
    assert said.code == 1
    assert all(words in said.err for words in told), said.err


def test_the_type_must_be_one_of_the_environment(train: Shell) -> None:
    environment = ("--environment", str(ENVIRONMENT), "--dry-run", "client")
    assert train("submit", "-f", str(JOB), *environment).code == 0
    said = train("submit", "first", "--queue", "q", "--type", "v5p-32", "--image", "i", *environment)
    assert "has no pool of v5p-32" in said.err


def test_the_queue_must_have_the_type_and_the_quota(train: Shell) -> None:
    said = train("submit", "-q", "first", "--queue", "tpu-job-queue", "--type", "v5p-32", "--image", "i")
    assert "error: --type: queue slices has no v5p-32" in said.err
    assert "hint: it has v4-32" in said.err
    said = train("submit", "-q", "first", *FLAGS, "--slices", "3")
    assert "--slices: queue slices can never hold it: 48 google.com/tpu of v4-32 is asked for, 32 is the most" in said.err


def test_kueue_and_jobset_must_be_there(train: Shell) -> None:
    train.ready(platform, workloads=False)
    for arguments, what in ((("submit", "-q", "-f", str(JOB)), "Kueue"), (("list",), "JobSet"), (("top",), "Kueue")):
        said = train(*arguments)
        assert (said.code, said.err.splitlines()) == (
            1,
            [f"error: {what} is not installed in this cluster", "hint: install it, or use --twin"],
        )


def test_the_queue_the_priority_and_the_namespace_must_be_there(train: Shell, tmp_path: Path) -> None:
    said = train("submit", "-q", "-f", changed(tmp_path, "tpu-job-queue", "tpu-jobs-queue"))
    assert "job.yaml:8: there is no queue 'tpu-jobs-queue' in namespace tpu-training" in said.err
    assert "hint: did you mean tpu-job-queue?" in said.err
    said = train("submit", "-q", "-f", changed(tmp_path, "priority: medium", "priority: hihg"))
    assert "job.yaml:9: there is no priority 'hihg'" in said.err
    assert "hint: did you mean high?" in said.err
    said = train("submit", "-q", "-f", str(JOB), "-n", "nowhere")
    assert "error: there is no namespace 'nowhere'" in said.err


def test_secrets_claims_and_accounts_must_be_there(train: Shell) -> None:
    async def with_secret(client: Client) -> None:
        await platform(client)
        await client.create(SECRET)

    train.ready(with_secret)
    for flags, told in (
        (("--secret", "TOKEN=hug/a"), "--secret: there is no Secret 'hug' in tpu-training"),
        (("--secret", "TOKEN=hub/b"), "--secret: the Secret 'hub' has no key 'b'"),
        (("--mount", "/data=pvc:home"), "--mount: there is no PersistentVolumeClaim 'home' in tpu-training"),
        (("--service-account", "nobody"), "--service-account: there is no ServiceAccount 'nobody' in tpu-training"),
    ):
        said = train("submit", "-q", "first", *FLAGS, *flags)
        assert (said.code, f"error: {told}" in said.err) == (1, True), said.err
    assert train("submit", "-q", "first", *FLAGS, "--secret", "TOKEN=hub/a").code == 0


def test_a_namespace_that_the_queue_does_not_take_is_told(train: Shell) -> None:
    async def unlabelled(client: Client) -> None:
        await platform(client)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stray"}}
        await client.create(space)
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "tpu-job-queue"}}
        await client.create({**queue, "spec": {"clusterQueue": "slices"}}, "stray", resource=train_cluster.LOCAL_QUEUES)

    train.ready(unlabelled)
    said = train("submit", "-q", "first", *FLAGS, "-n", "stray")
    assert "--queue: queue slices takes no work from namespace stray" in said.err


def test_a_name_is_taken_once(train: Shell) -> None:
    async def taken(client: Client) -> None:
        await platform(client)
        await send(client, "hello-one-slice")

    train.ready(taken)
    said = train("submit", "-q", "-f", str(JOB))
    assert "error: there is already a job hello-one-slice in tpu-training" in said.err
    assert "hint: take another name, or sliceworks train cancel" in said.err


def test_who_may_not_look_may_still_submit_and_who_may_not_submit_is_told(train: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from sliceworks.kube.client import Client as Whole

    listed, created = Whole.list_all, Whole.create

    async def blind(self: Whole, resource: Any, *rest: Any, **options: Any) -> Any:
        if resource.group == "kueue.x-k8s.io" and resource.kind != "LocalQueue":
            raise Forbidden("not for you")
        return await listed(self, resource, *rest, **options)

    monkeypatch.setattr(Whole, "list_all", blind)
    said = train("submit", "-q", "-f", str(JOB))
    assert (said.code, said.lines[1][-2:]) == (0, ["unknown", "unknown"]), said.err

    async def refused(self: Whole, obj: Any, *rest: Any, **options: Any) -> Any:
        if obj["kind"] == "JobSet":
            raise Forbidden('jobsets.jobset.x-k8s.io is forbidden: User "ada" cannot create')
        return await created(self, obj, *rest, **options)

    monkeypatch.setattr(Whole, "create", refused)
    said = train("submit", "-q", "first", *FLAGS)
    assert said.code == 1
    assert "hint: name your team's namespace with -n, or ask its administrator" in said.err


def test_another_document_is_not_submitted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["train", "submit", "-f", str(ENVIRONMENT), "--dry-run", "client"]) == 1
    assert "a TrainingJob is wanted, found Environment" in capsys.readouterr().err


def test_no_cluster_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main.run(["train", "submit", "-q", "-f", str(JOB)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint: ")


def test_waiting_ends_when_the_job_runs_or_has_finished(train: Shell) -> None:
    train.ready(with_machines)
    said = train("submit", "-f", str(JOB), "-o", "name", "--wait=running", "--timeout", "10m")
    assert said.code == 0, said.err
    lines = said.err.splitlines()
    assert lines[-1].startswith("Waiting until hello-one-slice runs: done in")
    assert lines[-2].endswith("hello-one-slice running: 4 of 4 hosts are ready")
    said = train("wait", "hello-one-slice", "--timeout", "10m")
    assert (said.code, "hello-one-slice completed: " in said.err) == (0, True), said.err
    train("cancel", "hello-one-slice", "-y")
    said = train("submit", "-f", str(JOB), "-o", "name", "--wait", "--timeout", "10m")
    assert (said.code, "hello-one-slice completed: " in said.err) == (0, True), said.err


def test_waiting_ends_with_a_job_that_fails_or_takes_too_long(train: Shell) -> None:
    train.ready(with_machines)
    said = train("submit", "-f", str(JOB), "-o", "name", "--wait", "--timeout", "30s")
    assert (said.code, "error: hello-one-slice is not finished after 30 seconds: running" in said.err) == (3, True), said.err

    async def crashing(client: Client) -> None:
        await with_machines(client)
        await send(client, "hello-one-slice", fail="crash", fail_seconds="90")

    train.ready(crashing)
    said = train("wait", "hello-one-slice")
    assert (said.code, "error: hello-one-slice failed: jobset failed" in said.err) == (1, True), said.err
    assert "after 1 restart" in said.err
