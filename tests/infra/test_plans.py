"""The plan that was shown is the plan that is applied: saved, compared, and refused when it has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import fake_terraform
from tests.support.cloud_http import served_cloud
from tests.support.environments import SMALL
from tests.support.terraform_twin import Twin

from sliceworks.base import clock
from sliceworks.base.errors import PermissionDenied, SliceworksError
from sliceworks.base.yaml_documents import load_all
from sliceworks.cli import main
from sliceworks.cli.env_site import EnvironmentCluster
from sliceworks.infra import protection
from sliceworks.infra.cluster.running_work import find_running_work
from sliceworks.infra.pools import deployed_costs
from sliceworks.infra.stack import PlanChanged, _refuse_other_changes, effective_changes
from sliceworks.infra.stages import compile_stages, keep_deployed_roles
from sliceworks.infra.target import Target, TwinTarget
from sliceworks.infra.terraform import Change
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

GRANT = "roles/iam.serviceAccountTokenCreator on automation@my-project.iam.gserviceaccount.com for user:me@example.com"
SLICE = 'module.node_pools.google_container_node_pool.this["slice-0"]'

granted: list[list[str] | None] = []
"""The approved grants of each apply."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A document next to a Terraform that creates nothing, without a cluster."""
    monkeypatch.setattr(EnvironmentCluster, "apply", lambda *_: [])
    monkeypatch.setattr(EnvironmentCluster, "compare", lambda *_: [])
    monkeypatch.setattr(EnvironmentCluster, "requeue", lambda *_: None)
    monkeypatch.setattr(EnvironmentCluster, "running_work", lambda *_: ["job training/resnet", "model chat/gemma"])
    monkeypatch.setattr(Target, "missing_grant", lambda *_, creates: GRANT if creates else "")
    monkeypatch.setattr(Target, "read_json", lambda *_: {})
    monkeypatch.setattr(Target, "ensure_impersonation", lambda _self, *grant: granted.append(grant[-1]))
    granted.clear()
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(fake_terraform.install(tmp_path / "bin")))
    document = tmp_path / "environment.yaml"
    document.write_text(SMALL)
    return str(document)


def plan(file: str, *changes: str) -> Path:
    planned = Path(file).parent / "bin" / "planned"
    planned.write_text("\n".join(changes))
    return planned


def calls(file: str) -> list[str]:
    return (Path(file).parent / "bin" / "calls").read_text().splitlines()


def test_apply_prints_priced_plan_and_asks(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan(file, "create first", f"delete {SLICE}")
    assert main.run(["env", "apply", "-f", file]) == 2
    output = capsys.readouterr().err
    assert "0-bootstrap   2        0        0         1" in output
    assert f"delete 2-cluster {SLICE}" in output
    assert f"\ngrant {GRANT}\n" in output
    assert "cost per hour: 0.00 USD before, 25.76 USD after; without cpu: " in output
    assert ": the price lists have no such price of n1-standard-4 in us-central2\n" in output
    assert "stdin is not a terminal; pass --yes to confirm" in output
    assert not [call for call in calls(file) if call.endswith(" apply")]
    assert not list(Path(file).parent.rglob("*.tfplan"))


def test_saved_plan_is_applied_and_only_to_the_same_document(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    saved = Path(file).parent / "plan.zip"
    plan(file, "create first")
    assert main.run(["env", "plan", "-f", file, "-q", "--plan-out", str(saved)]) == 0, capsys.readouterr().err
    assert saved.stat().st_mode & 0o777 == 0o600
    assert not list(Path(file).parent.rglob("*.tfplan"))
    assert main.run(["env", "apply", "-f", file, "-q", "--plan", str(saved)]) == 0, capsys.readouterr().err
    assert [call for call in calls(file) if call.endswith(" apply")] == ["0-bootstrap apply", "1-base apply", "2-cluster apply"]
    assert granted == [["first", GRANT]]
    Path(file).write_text(SMALL + "  forceDestroy: true\n")
    assert main.run(["env", "apply", "-f", file, "-q", "--plan", str(saved)]) == 1
    assert "the document changed since this plan was written" in capsys.readouterr().err
    saved.write_text("no plan")
    assert main.run(["env", "apply", "-f", file, "-q", "--plan", str(saved)]) == 2


def test_account_loses_roles_after_the_other_stages_are_applied(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    account = "automation@my-project.iam.gserviceaccount.com"

    def member(role: str, *allowed: str, of: str = account) -> dict[str, Any]:
        condition = [{"expression": f"api.getAttribute('x', []).hasOnly([{', '.join(map(repr, allowed))}])"}] if allowed else []
        attributes = {"member": f"serviceAccount:{of}", "role": role, "condition": condition}
        return {"mode": "managed", "type": "google_project_iam_member", "instances": [{"attributes": attributes}]}

    grants = member("roles/resourcemanager.projectIamAdmin", "roles/logging.logWriter", "projects/p/roles/slices")
    builds = member("roles/artifactregistry.writer", of="automation-build@my-project.iam.gserviceaccount.com")
    resources = [member("roles/gkehub.admin"), grants, builds]
    pulled = Path(file).parent / "bin" / "pulled-0-bootstrap"
    pulled.write_bytes(orjson.dumps({"resources": resources}))
    plan(file, "update first")
    assert main.run(["env", "apply", "-f", file, "-y", "-q"]) == 0, capsys.readouterr().err
    applied = [call for call in calls(file) if call.endswith(" apply")]
    assert applied == ["0-bootstrap apply", "1-base apply", "2-cluster apply", "0-bootstrap apply"]
    [document] = load_all(SMALL, "environment.yaml")
    bootstrap = compile_stages(documents.read_as(document, Environment))[0]
    kept = keep_deployed_roles(bootstrap, protection.resources_of({"resources": resources})).variables["automation"]
    before = bootstrap.variables["automation"]
    assert set(kept["roles"]) - set(before["roles"]) == {"roles/gkehub.admin"}
    assert set(kept["grants"]) - set(before["grants"]) == {"roles/logging.logWriter", "projects/p/roles/slices"}
    assert keep_deployed_roles(bootstrap, []) == bootstrap


@pytest.mark.parametrize("initialized", [True, False], ids=["applied-here", "applied-on-another-machine"])
def test_stage_that_the_document_dropped_is_destroyed_unless_it_is_protected(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, initialized: bool
) -> None:
    stage = Path(file).parent / "home" / "environments" / "small" / "stages" / "4-load"
    (stage / ".terraform" if initialized else stage).mkdir(parents=True)
    (stage / "state.json").write_text('["first"]')
    table = {"project": "my-project", "table_id": "requests", "deletion_protection": True}
    resource = {"mode": "managed", "type": "google_bigquery_table", "instances": [{"attributes": table}]}
    state = {"resources": [resource]}
    (Path(file).parent / "bin" / "pulled-4-load").write_bytes(orjson.dumps(state))
    reads: list[str] = []

    def read_json(_target: Target, bucket: str, name: str) -> dict[str, Any]:
        reads.append(name)
        deployed = (stage / "state.json").exists() and not initialized
        return state if deployed and (bucket, name) == ("my-automation", "small/terraform/4-load/default.tfstate") else {}

    monkeypatch.setattr(Target, "read_json", read_json)
    plan(file, "delete first")
    assert main.run(["env", "apply", "-f", file, "-y", "-q"]) == 1
    hint = "hint: set spec.deletionProtection to false; then apply again"
    assert f"table requests: spec.deletionProtection is true\n{hint}" in capsys.readouterr().err
    assert not [call for call in calls(file) if call.endswith((" apply", " destroy"))]
    assert len(reads) == len(set(reads))
    Path(file).write_text(SMALL + "  deletionProtection: false\n")
    assert main.run(["env", "apply", "-f", file, "-y", "-q"]) == 0, capsys.readouterr().err
    assert [call for call in calls(file) if call.endswith((" apply", " destroy"))][-2:] == ["2-cluster apply", "4-load destroy"]
    assert not (stage / ".terraform").exists()
    capsys.readouterr()
    assert main.run(["env", "plan", "-f", file, "-q", "-o", "json"]) == 0
    assert "4-load" not in capsys.readouterr().out


def test_plan_says_when_dropped_stages_cannot_be_known(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_json(_target: Target, bucket: str, name: str) -> dict[str, Any]:
        raise PermissionDenied(f"no storage.objects.get access to {bucket}")

    monkeypatch.setattr(Target, "read_json", read_json)
    plan(file, "create first")
    assert main.run(["env", "plan", "-f", file]) == 0
    message = (
        "cannot find stages that the document dropped and another machine applied: no storage.objects.get access to my-automation"
    )
    assert capsys.readouterr().err.count(message) == 1


def test_state_in_bucket_is_read(tmp_path: Path) -> None:
    with served_cloud() as cloud:
        twin = Twin(tmp_path, cloud.url, cloud.token)
        target = TwinTarget(address=cloud.url, token=cloud.token)
        name = "small/terraform/4-load/default.tfstate"
        assert target.read_json("my-automation", name) == {}
        twin.ask("POST", "/storage/v1/b", {"name": "my-automation", "location": "us-central2"}, {"project": "my-project"})
        assert target.read_json("my-automation", name) == {}
        twin.upload("my-automation", name, b'{"resources": [1]}')
        assert target.read_json("my-automation", name) == {"resources": [1]}


def test_stage_with_other_changes_than_approved_is_not_applied() -> None:
    approved = [Change("a", "create"), Change("b", "update")]
    _refuse_other_changes("1-base", approved, [Change("a", "update"), Change("b", "update")])
    _refuse_other_changes("1-base", approved, [])
    with pytest.raises(PlanChanged, match="1-base: the plan changed since it was approved: replace b"):
        _refuse_other_changes("1-base", approved, [Change("b", "replace")])
    assert effective_changes([Change("b", "noop"), Change("a", "create")]) == [Change("a", "create")]


def test_resize_names_jobs_and_models_that_it_ends_and_asks(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "apply", "-f", file, "-y", "-q"]) == 0, capsys.readouterr().err
    plan(file, f"delete {SLICE}")

    def confirm(question: str, yes: bool) -> None:
        requests.append((question, yes))
        raise SliceworksError("not confirmed; nothing was changed")

    requests: list[tuple[str, bool]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sliceworks.cli.options.confirm", confirm)
        assert main.run(["env", "resize", "slice", "0", "-f", file, "-q"]) == 1
    assert requests == [("Set slice to 0 slices? (this ends job training/resnet, model chat/gemma)", False)]
    assert main.run(["env", "resize", "slice", "0", "-f", file, "-q"]) == 2
    hint = "pass --yes to confirm\nhint: to be confirmed: Set slice to 0 slices? (this ends job training/resnet, model chat/gemma)"
    assert hint in capsys.readouterr().err
    assert "count" not in Path(file).read_text()


def test_deployed_pools_have_the_price_of_their_machines() -> None:
    def pool(machine: str, count: int, **node: Any) -> tuple[str, dict[str, Any]]:
        attributes = {"name": machine, "node_count": count, "node_locations": ["us-central2-b"], "autoscaling": []}
        return "google_container_node_pool", {**attributes, "node_config": [{"machine_type": machine, **node}]}

    slice_, scaled, unknown = deployed_costs([pool("ct4p-hightpu-4t", 2), pool("e2-medium", 0), pool("x9-huge", 1)], "us-central2")
    assert slice_.count == 2
    assert slice_.hourly == pytest.approx(25.76)
    assert scaled.count == 0
    assert unknown.hourly is None


class Objects:
    """A client that lists fixed objects."""

    def __init__(self, **items: list[dict[str, Any]]) -> None:
        self.kinds = items

    async def list_all(self, resource: Any, _namespace: str | None = None) -> Any:
        await asyncio.sleep(0)
        return type("Page", (), {"items": self.kinds[resource.plural]})


def test_running_work_is_found_by_the_pools_of_its_nodes() -> None:
    def pod(node: str, phase: str) -> dict[str, Any]:
        return {"metadata": {"namespace": "a", "labels": {}}, "spec": {"nodeName": node}, "status": {"phase": phase}}

    nodes = [{"metadata": {"name": name, "labels": {"cloud.google.com/gke-nodepool": name[:-2]}}} for name in ("tpu-0", "cpu-0")]
    job, model = "jobset.sigs.k8s.io/jobset-name", "sliceworks.dev/model-service"
    pods = [pod("tpu-0", "Running"), pod("tpu-0", "Running"), pod("cpu-0", "Running"), pod("tpu-0", "Succeeded")]
    for item, labels in zip(pods, ({job: "resnet"}, {job: "resnet"}, {model: "gemma"}, {job: "ended"}), strict=True):
        item["metadata"]["labels"] = labels
    client: Client = Objects(nodes=nodes, pods=pods)  # type: ignore[assignment]
    assert clock.run(find_running_work(client, ["tpu"])) == ["job a/resnet"]
    assert clock.run(find_running_work(client)) == ["job a/resnet", "model a/gemma"]
