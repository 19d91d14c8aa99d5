"""`env` beside a twin and a Terraform that makes nothing: what is in the cluster is planned, made, shown, put right and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import fake_terraform
from tests.support.environments import EXAMPLES, SMALL

from sliceworks.base import clock
from sliceworks.cli import main
from sliceworks.cli.env_apply import way_in
from sliceworks.kube import open_client
from sliceworks.kube.resources import Resource
from sliceworks.rehearsal import homes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUEUE = Resource("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
TEAMS = "  teams: {research: {}}\n"


class Shell:
    """Runs commands here, and tells what they said."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file, self.terraform, self._capsys = folder / "environment.yaml", folder / "bin", capsys
        self.out = self.err = ""

    def write(self, more: str = "", text: str = SMALL) -> None:
        self.file.write_text(text + more)

    def __call__(self, *arguments: str) -> int:
        code = main.run(["env", *arguments, "-f", str(self.file)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines()]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a twin that runs."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("SLICEWORKS_HOME", str(folder))
        assert main.run(["twin", "start", "--memory", "-q"]) == 0
        yield folder
        assert main.run(["twin", "stop", "-q"]) == 0


@pytest.fixture
def env(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    monkeypatch.setenv("SLICEWORKS_HOME", str(home))
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(fake_terraform.install(tmp_path / "bin")))
    (tmp_path / "bin" / "planned").write_text("")
    shell = Shell(tmp_path, capsys)
    shell.write(TEAMS)
    capsys.readouterr()
    yield shell
    if "Environment" in shell.file.read_text():
        assert shell("destroy", "--twin", "-y", "-q") == 0, shell.err


def change_queue() -> None:
    async def work() -> None:
        async with open_client(homes.find("default").kubeconfig) as client:
            await client.patch(QUEUE, "slices", {"spec": {"queueingStrategy": "StrictFIFO"}}, field_manager="somebody")

    clock.run(work())


def test_the_way_into_a_cluster_is_a_command_that_names_it_whole() -> None:
    cluster = {"name": "training-cluster", "location": "us-central2", "endpoint": "10.0.0.2", "ca_certificate": "…"}
    wanted = "gcloud container clusters get-credentials training-cluster --project my-project --location us-central2"
    assert way_in("my-project", cluster) == wanted


def test_apply_tells_counts_and_the_names_of_everything(env: Shell) -> None:
    assert env("apply", "--twin") == 0, env.err
    assert "gcloud" not in env.err
    rows = env.rows()
    made = next(row for row in rows if row[0] == "cluster")
    assert int(made[1]) > 8
    assert ["cluster/queues", "LocalQueue", "research/queue"] in rows
    assert "Applying cluster/kueue: done in " in env.err
    assert env("apply", "--twin", "-q", "-o", "json") == 0
    again: dict[str, Any] = orjson.loads(env.out)
    assert {each["action"] for each in again["cluster"]} == {"noop"}
    assert {"stage": "cluster/queues", "kind": "ClusterQueue", "name": "slices"} in again["names"]
    assert again["2-cluster"]["cluster"]


def test_a_plan_before_there_is_a_cluster_tells_what_would_be_made(env: Shell) -> None:
    assert env("plan", "--twin", "-q") == 0, env.err
    assert ["cluster/queues", "+", "LocalQueue", "research/queue"] in env.rows()


def test_a_full_plan_has_terraforms_own_words_after_ours(env: Shell) -> None:
    assert env("plan", "--twin", "--full", "-q") == 0, env.err
    ours, _, words = env.out.partition("# 0-bootstrap\n")
    assert "LocalQueue research/queue" in ours
    assert words.startswith("all that is planned in 0-bootstrap\n\n# 1-base\nall that is planned in 1-base\n")
    assert not list(env.file.parent.rglob("*.tfplan"))
    assert env("plan", "--twin", "--full", "-o", "json", "-q") == 2


def test_a_plan_for_the_cloud_names_what_would_be_fetched(env: Shell) -> None:
    assert env("plan", "-q") == 0, env.err
    assert ["cluster/jobset", "+", "Release", "v0.12.0"] in env.rows()
    assert ["cluster/kueue", "+", "Release", "v0.15.0"] in env.rows()


def test_destroy_needs_no_graphs(env: Shell) -> None:
    env.write("  selfService: {graphs: [gone.yaml]}\n")
    assert env("plan", "--twin", "-q") == 1
    assert env("destroy", "--twin", "-y", "-q") == 0, env.err


def test_a_plan_asks_the_cluster_and_show_tells_what_drifted(env: Shell) -> None:
    assert env("apply", "--twin", "-q") == 0, env.err
    env.write("  teams: {serving: {}}\n")
    assert env("plan", "--twin", "-q", "-o", "json") == 0, env.err
    planned = {(each["action"], each["address"]) for each in orjson.loads(env.out)}
    assert ("create", "Namespace serving") in planned
    assert ("delete", "Namespace research") in planned
    assert not [address for action, address in planned if action == "update"]
    env.write(TEAMS)
    assert env("show", "--drift", "--twin", "-o", "name") == 0, env.out
    assert "LocalQueue research/queue" in env.out
    change_queue()
    assert env("show", "--drift", "--twin") == 1
    assert [row[1:] for row in env.rows() if row[-1] == "changed"] == [["ClusterQueue", "slices", "changed"]]
    assert env("apply", "--twin", "-q") == 0
    assert env("show", "--drift", "--twin", "-o", "name") == 0
    assert env("plan", "--twin", "-o", "name") == 0, env.err
    assert (env.out, "small: nothing would change" in env.err) == ("", True)


def test_resize_gives_the_queue_the_chips_that_there_are(env: Shell) -> None:
    assert env("apply", "--twin", "-q") == 0, env.err
    (env.terraform / "planned").write_text('delete module.node_pools.this["slice-0"]')
    env.write("", SMALL.replace("type: v4-16", "type: v4-16, count: 1") + TEAMS)
    assert env("resize", "slice", "0", "--twin", "-q") == 0, env.err

    async def quota() -> str:
        async with open_client(homes.find("default").kubeconfig) as client:
            groups = (await client.get(QUEUE, "slices"))["spec"]["resourceGroups"]
            return str(groups[0]["flavors"][0]["resources"][0]["nominalQuota"])

    assert clock.run(quota()) == "0"


def test_destroy_takes_everything_out_and_tells_what_stays(env: Shell) -> None:
    assert env("apply", "--twin", "-q") == 0, env.err
    assert env("destroy", "--twin", "-y") == 0, env.err
    assert int(next(row for row in env.rows() if row[0] == "cluster")[1]) > 8
    assert "stays: project my-project, and the services that are enabled in it" in env.err
    assert env("show", "--twin", "-o", "name") == 0
    assert env.out == ""


def test_a_namespace_that_stays_is_told_with_its_reason(env: Shell) -> None:
    assert env("apply", "--twin", "-q") == 0, env.err

    async def note() -> None:
        metadata = {"name": "notes", "namespace": "research"}
        async with open_client(homes.find("default").kubeconfig) as client:
            await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    clock.run(note())
    env.write()
    assert env("apply", "--twin") == 0, env.err
    assert "Namespace research is no longer asked for, and stays: ConfigMap notes is in it" in env.err


SQL = """kind: ResourceGraphDefinition
metadata: {name: g}
spec:
  schema: {kind: A}
  resources:
  - {id: one, template: {apiVersion: sql.cnrm.cloud.google.com/v1beta1, kind: SQLInstance}}
"""
SERVICE = "  selfService: {modelRegistries: [{secret: kaggle-secret, file: kaggle.json}]%s}\n"


def test_nothing_is_begun_without_the_credentials_that_are_asked_for(env: Shell) -> None:
    env.write(SERVICE % "")
    assert env("apply", "-y") == 1
    assert f"error: {env.file.parent / 'kaggle.json'}: there is no such file" in env.err
    assert "--skip secrets" in env.err
    assert not (env.terraform / "calls").exists()
    env.write()


def test_check_tells_what_apply_does_not_do(env: Shell) -> None:
    env.write("  addons: {gateway: true}\n")
    assert env("check") == 0
    said = env.err.splitlines()
    assert "small: nothing is wrong" in said
    assert said[-1].startswith("note: addons.gateway: there is no registry to build its image into")
    env.write()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: ConfigMap\nmetadata: {name: a}\n", "ConfigMap/a is no ResourceGraphDefinition"),
        ("", "no such file"),
        (SQL, "g, one: no role is known with which Config Connector keeps a SQLInstance"),
    ],
)
def test_graphs_that_cannot_be_published_are_refused_before_anything_is_made(env: Shell, text: str, said: str) -> None:
    if text:
        (env.file.parent / "graph.yaml").write_text(text)
    env.write("  selfService: {graphs: [graph.yaml]}\n  addons: {graphs: true, image: a/b:c}\n")
    for command in (("check",), ("apply", "-y"), ("plan",)):
        assert env(*command) == 1
        assert said in env.err
    assert not (env.terraform / "calls").exists()
    env.write()


def test_a_graph_that_does_not_compile_is_refused_with_its_place(env: Shell) -> None:
    graph = (EXAMPLES / "graphs" / "gemma-on-tpu" / "definition.yaml").read_text()
    (env.file.parent / "graph.yaml").write_text(graph.replace("${bucket.metadata.name}", "${bucket.metadata.nam}"))
    env.write("  selfService: {graphs: [graph.yaml]}\n  addons: {graphs: true, image: a/b:c}\n")
    assert env("check") == 1
    assert "graph.yaml:" in env.err
    assert "nam" in env.err
    env.write()


def test_builds_give_config_connector_the_roles_that_the_graphs_need(env: Shell) -> None:
    graph = (EXAMPLES / "graphs" / "gemma-on-tpu" / "definition.yaml").read_text()
    (env.file.parent / "graph.yaml").write_text(graph)
    env.write("  selfService: {graphs: [graph.yaml]}\n  addons: {graphs: true, image: a/b:c}\n")
    folder = env.file.parent / "builds"
    assert env("cloudbuild", "--to", str(folder), "-q") == 0, env.err
    given = orjson.loads((folder / "stages" / "2-cluster" / "environment.auto.tfvars.json").read_bytes())
    assert "roles/storage.admin" in given["config_connector"]["roles"]
    env.write()
