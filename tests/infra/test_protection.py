"""Protections are found before anything is deleted, and lifted in the state when the document allows the deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import fake_terraform
from tests.support.environments import SMALL

from sliceworks.base.errors import SliceworksError
from sliceworks.base.yaml_documents import load_all
from sliceworks.cli import main
from sliceworks.cli.env_site import EnvironmentCluster
from sliceworks.infra.protection import BUCKET, DATASET, Contents, find_protections, lift_protections, refuse, resources_of
from sliceworks.infra.provider.grpc_provider import _may_delete
from sliceworks.infra.target import Target
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.specs.environment import EnvironmentSpec

Object = dict[str, Any]
CLUSTER, TABLE = "google_container_cluster", "google_bigquery_table"


def spec(more: str = "") -> EnvironmentSpec:
    [document] = load_all(SMALL + more, "environment.yaml")
    return documents.read_as(document, Environment).spec


def state(*resources: tuple[str, Object]) -> Object:
    return {
        "serial": 4,
        "resources": [{"mode": "managed", "type": kind, "instances": [{"attributes": item}]} for kind, item in resources],
    }


EVERYTHING = state(
    (CLUSTER, {"name": "small-cluster", "deletion_protection": True}),
    (TABLE, {"table_id": "requests", "deletion_protection": True}),
    (BUCKET, {"name": "small-data", "force_destroy": False}),
    (DATASET, {"dataset_id": "small_load", "delete_contents_on_destroy": False}),
)
FOREIGN = {(BUCKET, "small-data"): Contents(("a", "b", "c", "d")), (DATASET, "small_load"): Contents(("notes",))}


def test_every_protected_resource_is_named_with_its_remedy() -> None:
    with pytest.raises(SliceworksError) as caught:
        refuse("small", find_protections(spec(), resources_of(EVERYTHING), FOREIGN), "destroy")
    assert caught.value.message == (
        "small is protected, nothing was deleted: cluster small-cluster: spec.deletionProtection is true; "
        "table requests: spec.deletionProtection is true; "
        "bucket small-data: contains objects (a, b, c, …) and spec.forceDestroy is false; "
        "dataset small_load: contains tables (notes) and spec.forceDestroy is false"
    )
    assert caught.value.hint == (
        "set spec.deletionProtection to false; set spec.forceDestroy to true, or empty the bucket; "
        "set spec.forceDestroy to true; then destroy again"
    )


def test_nothing_is_protected_if_document_allows_deletion() -> None:
    allowed = spec("  deletionProtection: false\n  forceDestroy: true\n")
    assert list(find_protections(allowed, resources_of(EVERYTHING), FOREIGN)) == []


def test_empty_bucket_does_not_block() -> None:
    empty = {(BUCKET, "small-data"): Contents(())}
    assert [
        item.resource for item in find_protections(spec("  deletionProtection: false\n"), resources_of(EVERYTHING), empty)
    ] == []


def test_state_is_changed_only_where_document_allows_deletion() -> None:
    kept = orjson.loads(orjson.dumps(EVERYTHING))
    assert not lift_protections(spec(), kept, [])
    assert kept == EVERYTHING
    assert lift_protections(spec("  deletionProtection: false\n"), kept, ["small-data"])
    assert [list(item.values())[1] for _kind, item in resources_of(kept)] == [False, False, True, False]
    assert kept["serial"] == 5
    assert lift_protections(spec("  forceDestroy: true\n"), kept, [])
    assert not lift_protections(spec("  forceDestroy: true\n"), kept, [])


@pytest.mark.parametrize(
    ("kind", "prior", "message"),
    [
        (CLUSTER, {"deletion_protection": True}, "Cannot destroy cluster because deletion_protection is set to true."),
        (TABLE, {"deletion_protection": True, "id": "t"}, "cannot destroy table t without setting deletion_protection=false"),
        (BUCKET, {"deletion_policy": "PREVENT", "id": "b"}, 'cannot destroy b without setting deletion_policy="DELETE"'),
    ],
)
def test_provider_refuses_to_delete_protected_resource(kind: str, prior: Object, message: str) -> None:
    with pytest.raises(SliceworksError) as caught:
        _may_delete(kind, prior)
    assert caught.value.message.startswith(message)


def test_provider_deletes_only_what_it_does_not_abandon() -> None:
    assert _may_delete(TABLE, {"deletion_protection": False})
    assert not _may_delete(BUCKET, {"deletion_policy": "ABANDON"})


def test_refused_destroy_runs_no_terraform_destroy_and_touches_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed: list[object] = []

    def remove(*given: object) -> tuple[int, list[str]]:
        removed.append(given)
        return 0, []

    monkeypatch.setattr(EnvironmentCluster, "remove", remove)
    monkeypatch.setattr(EnvironmentCluster, "running_work", lambda *_: ["job training/resnet"])
    monkeypatch.setattr(Target, "list_objects", lambda _target, bucket: {"small-data": ["checkpoints/1"]}.get(bucket, []))
    monkeypatch.setattr(Target, "list_tables", lambda *_: [])
    monkeypatch.setattr(Target, "missing_grant", lambda *_, creates: "")
    monkeypatch.setattr(Target, "read_json", lambda *_: {})
    monkeypatch.setattr(Target, "ensure_impersonation", lambda *_: None)
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    program = fake_terraform.install(tmp_path / "bin")
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(program))
    document = tmp_path / "environment.yaml"
    document.write_text(SMALL)
    for stage in ("0-bootstrap", "1-base", "2-cluster"):
        folder = tmp_path / "home" / "environments" / "small" / "stages" / stage
        folder.mkdir(parents=True)
        (folder / "state.json").write_text('["first"]')
    program.with_name("pulled-2-cluster").write_bytes(orjson.dumps(EVERYTHING))
    assert main.run(["env", "destroy", "-y", "-f", str(document)]) == 1
    assert "small is protected, nothing was deleted: cluster small-cluster" in capsys.readouterr().err
    assert "destroy" not in program.with_name("calls").read_text()
    assert removed == []
    document.write_text(SMALL + "  deletionProtection: false\n  forceDestroy: true\n")
    assert main.run(["env", "destroy", "-f", str(document)]) == 2
    assert "to be confirmed: This deletes everything in small (this ends job training/resnet)." in capsys.readouterr().err
    assert main.run(["env", "destroy", "-y", "-f", str(document)]) == 0
    assert "this ends job training/resnet" in capsys.readouterr().err
    calls = program.with_name("calls").read_text().splitlines()
    assert calls.index("2-cluster destroy") > calls.index("0-bootstrap state")
