"""`env` with a twin and a fake Terraform: the cluster's objects are planned, applied, shown, repaired and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import fake_terraform
from tests.support.environments import EXAMPLES, SMALL

from sliceworks.base import clock
from sliceworks.cli import main
from sliceworks.cli.env_apply import kubeconfig_command
from sliceworks.infra.target import Target
from sliceworks.kube import open_client
from sliceworks.kube.resources import Resource
from sliceworks.platform import twin_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.long(30)
QUEUE = Resource("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
TEAMS = "  teams: {research: {}}\n"
GIVEN = SMALL.replace("{bucket: my-automation}", "{bucket: my-automation, create: false}")
"""An Environment whose automation account exists: the fake Terraform creates none."""


class Shell:
    """Runs commands in this process and captures their output."""

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
    """The home of a running twin."""
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
    # The fake Terraform creates no automation account, on which a role could be missing.
    monkeypatch.setattr(Target, "missing_grant", lambda *_, creates: "")
    monkeypatch.setattr(Target, "read_json", lambda *_: {})
    shell = Shell(tmp_path, capsys)
    shell.write(TEAMS)
    capsys.readouterr()
    yield shell
    if "Environment" in shell.file.read_text():
        assert shell("destroy", "--twin", "-y", "-q") == 0, shell.err


def change_queue() -> None:
    async def work() -> None:
        async with open_client(twin_home.find("default").kubeconfig) as client:
            await client.patch(QUEUE, "slices", {"spec": {"queueingStrategy": "StrictFIFO"}}, field_manager="another")

    clock.run(work())


def test_connect_command_names_the_cluster() -> None:
    cluster = {"name": "training-cluster", "location": "us-central2", "endpoint": "10.0.0.2", "ca_certificate": "…"}
    expected = "gcloud container clusters get-credentials training-cluster --project my-project --location us-central2"
    assert kubeconfig_command("my-project", cluster) == expected


def test_apply_prints_counts_and_names(env: Shell) -> None:
    assert env("apply", "--twin") == 0, env.err
    assert "gcloud" not in env.err
    rows = env.rows()
    created = next(row for row in rows if row[0] == "cluster")
    assert int(created[1]) > 8
    assert ["cluster/queues", "LocalQueue", "research/queue"] in rows
    assert "Applying cluster/kueue: done in " in env.err
    assert env("apply", "--twin", "-q", "-o", "json") == 0
    again: dict[str, Any] = orjson.loads(env.out)
    assert {item["action"] for item in again["cluster"]} == {"noop"}
    assert {"stage": "cluster/queues", "kind": "ClusterQueue", "name": "slices"} in again["names"]
    assert again["2-cluster"]["cluster"]


def test_plan_without_cluster_lists_objects_to_create(env: Shell) -> None:
    assert env("plan", "--twin", "-q") == 0, env.err
    assert ["cluster/queues", "+", "LocalQueue", "research/queue"] in env.rows()


def test_full_plan_includes_terraform_output(env: Shell) -> None:
    assert env("plan", "--twin", "--full", "-q") == 0, env.err
    ours, _, words = env.out.partition("# 0-bootstrap\n")
    assert "LocalQueue research/queue" in ours
    assert words.startswith("all that is planned in 0-bootstrap\n\n# 1-base\nall that is planned in 1-base\n")
    assert not list(env.file.parent.rglob("*.tfplan"))
    assert env("plan", "--twin", "--full", "-o", "json", "-q") == 2


def test_plan_for_google_cloud_lists_downloads(env: Shell) -> None:
    env.write(TEAMS, GIVEN)
    assert env("plan", "-q") == 0, env.err
    assert ["cluster/jobset", "+", "Release", "v0.12.0"] in env.rows()
    assert ["cluster/kueue", "+", "Release", "v0.15.0"] in env.rows()


def test_destroy_needs_no_graphs(env: Shell) -> None:
    env.write("  selfService: {graphs: [gone.yaml]}\n")
    assert env("plan", "--twin", "-q") == 1
    assert env("destroy", "--twin", "-y", "-q") == 0, env.err


def test_plan_and_show_report_drift(env: Shell) -> None:
    env.write(TEAMS, GIVEN)
    assert env("apply", "--twin", "-q") == 0, env.err
    env.write("  teams: {serving: {}}\n", GIVEN)
    assert env("plan", "--twin", "-q", "-o", "json") == 0, env.err
    planned = {(item["action"], item["address"]) for item in orjson.loads(env.out)}
    assert ("create", "Namespace serving") in planned
    assert ("delete", "Namespace research") in planned
    assert not [address for action, address in planned if action == "update"]
    env.write(TEAMS, GIVEN)
    assert env("show", "--drift", "--twin", "-o", "name") == 0, env.out
    assert "LocalQueue research/queue" in env.out
    change_queue()
    assert env("show", "--drift", "--twin") == 1
    assert [row[1:] for row in env.rows() if row[-1] == "changed"] == [["ClusterQueue", "slices", "changed"]]
    assert env("apply", "--twin", "-q") == 0
    assert env("show", "--drift", "--twin", "-o", "name") == 0
    assert env("plan", "--twin", "-o", "name") == 0, env.err
    assert (env.out, "small: no changes" in env.err) == ("", True)


def test_resize_updates_queue_quota(env: Shell) -> None:
    assert env("apply", "--twin", "-q") == 0, env.err
    (env.terraform / "planned").write_text('delete module.node_pools.this["slice-0"]')
    env.write("", SMALL.replace("type: v4-16", "type: v4-16, count: 1") + TEAMS)
    assert env("resize", "slice", "0", "--twin", "-q") == 0, env.err

    async def quota() -> str:
        async with open_client(twin_home.find("default").kubeconfig) as client:
            groups = (await client.get(QUEUE, "slices"))["spec"]["resourceGroups"]
            return str(groups[0]["flavors"][0]["resources"][0]["nominalQuota"])

    assert clock.run(quota()) == "0"


def test_destroy_deletes_objects_and_lists_the_rest(env: Shell) -> None:
    assert env("apply", "--twin", "-q") == 0, env.err
    assert env("destroy", "--twin", "-y") == 0, env.err
    assert int(next(row for row in env.rows() if row[0] == "cluster")[1]) > 8
    assert "kept: project my-project, and the services that are enabled in it" in env.err
    assert env("show", "--twin", "-o", "name") == 0
    assert env.out == ""


def test_kept_namespace_is_reported_with_reason(env: Shell) -> None:
    assert env("apply", "--twin", "-q") == 0, env.err

    async def note() -> None:
        metadata = {"name": "notes", "namespace": "research"}
        async with open_client(twin_home.find("default").kubeconfig) as client:
            await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    clock.run(note())
    env.write()
    assert env("apply", "--twin") == 0, env.err
    assert "Namespace research is no longer in the document but is kept: it contains ConfigMap notes" in env.err


SQL = """kind: ResourceGraphDefinition
metadata: {name: g}
spec:
  schema: {kind: A}
  resources:
  - {id: one, template: {apiVersion: sql.cnrm.cloud.google.com/v1beta1, kind: SQLInstance}}
"""
SERVICE = "  selfService: {modelRegistries: [{secret: kaggle-secret, file: kaggle.json}]%s}\n"


def test_missing_registry_credentials_are_an_error(env: Shell) -> None:
    env.write(SERVICE % "")
    assert env("apply", "-y") == 1
    assert f"error: {env.file.parent / 'kaggle.json'}: file not found" in env.err
    assert "--skip secrets" in env.err
    assert not (env.terraform / "calls").exists()
    env.write()


def test_check_reports_what_apply_does_not_do(env: Shell) -> None:
    env.write("  addons: {gateway: true}\n")
    assert env("check") == 0
    output = env.err.splitlines()
    assert "small: all checks passed" in output
    assert output[-1].startswith("note: addons.gateway: no registry to push its image to")
    env.write()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: ConfigMap\nmetadata: {name: a}\n", "ConfigMap/a is not a ResourceGraphDefinition"),
        ("", "no such file"),
        (SQL, "g, one: no role is known for Config Connector to manage a SQLInstance"),
    ],
)
def test_invalid_graphs_are_rejected_before_apply(env: Shell, text: str, expected: str) -> None:
    if text:
        (env.file.parent / "graph.yaml").write_text(text)
    env.write("  selfService: {graphs: [graph.yaml]}\n  addons: {graphs: true, image: a/b:c}\n")
    for command in (("check",), ("apply", "-y"), ("plan",)):
        assert env(*command) == 1
        assert expected in env.err
    assert not (env.terraform / "calls").exists()
    env.write()


def test_graph_compile_error_has_its_location(env: Shell) -> None:
    graph = (EXAMPLES / "graphs" / "gemma-on-tpu" / "definition.yaml").read_text()
    (env.file.parent / "graph.yaml").write_text(graph.replace("${bucket.metadata.name}", "${bucket.metadata.nam}"))
    env.write("  selfService: {graphs: [graph.yaml]}\n  addons: {graphs: true, image: a/b:c}\n")
    assert env("check") == 1
    assert "graph.yaml:" in env.err
    assert "nam" in env.err
    env.write()


def test_build_grants_config_connector_the_roles_of_graphs(env: Shell) -> None:
    graph = (EXAMPLES / "graphs" / "gemma-on-tpu" / "definition.yaml").read_text()
    (env.file.parent / "graph.yaml").write_text(graph)
    env.write("  selfService: {graphs: [graph.yaml]}\n  addons: {graphs: true, image: a/b:c}\n")
    folder = env.file.parent / "builds"
    assert env("cloudbuild", "--to", str(folder), "-q") == 0, env.err
    variables = orjson.loads((folder / "stages" / "2-cluster" / "environment.auto.tfvars.json").read_bytes())
    assert "roles/storage.admin" in variables["config_connector"]["roles"]
    env.write()
