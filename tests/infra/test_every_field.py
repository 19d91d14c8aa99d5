"""Every field of an Environment has an effect: with another value something else is made, built or put into the cluster."""

from __future__ import annotations

import re
import typing
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel
from tests.support import environments

from sliceworks.base import yamls
from sliceworks.infra import cloudbuild, manager
from sliceworks.infra.cluster import compose, secrets
from sliceworks.infra.cluster.releases import releases
from sliceworks.infra.stages import stages
from sliceworks.infra.workspaces import modules
from sliceworks.rehearsal.contents import published, with_roles
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment, EnvironmentSpec
from sliceworks.training.queues import manifests

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]
FOLDER = environments.EXAMPLES / "environments" / "self-service"
GRAPH = "../../graphs/gemma-on-tpu/definition.yaml"
WHOLE = f"""
project: my-project
region: us-central2
zones: [us-central2-b]
state: {{prefix: states}}
automation: {{bucket: my-automation}}
cluster: {{private: {{controlPlaneRange: 10.3.0.0/28}}, maintenance: {{}}}}
pools:
  cpu: {{cpu: {{nodes: 1, taints: [{{key: only}}]}}, some: {{autoscaling: {{max: 3}}}}}}
  tpu: {{tpu: {{type: v4-16, taints: [{{key: only}}]}}}}
  gpu:
    gpu: {{nodes: 1, accelerator: nvidia-tesla-t4, taints: [{{key: only}}]}}
    more: {{autoscaling: {{max: 3}}, accelerator: nvidia-tesla-t4}}
identities: {{workloads: {{trainer: {{namespace: training}}, writers: {{namespace: writing}}}}}}
buckets: {{my-data: {{}}}}
registry: {{build: [gateway, controllers]}}
tensorboard: {{}}
loadMetrics: {{}}
selfService: {{project: {{folder: "1"}}, modelRegistries: [{{file: kaggle.json}}], graphs: [{GRAPH}]}}
addons: {{slices: true, graphs: true}}
queues: {{sharing: cohort}}
teams: {{research: {{shares: {{v4-16: {{chips: 8}}}}}}, writing: {{}}}}
"""
EXISTING = {"network": {"existing": {"network": "core", "subnet": "gke"}}}
POOL: Object = {
    "zones": ["us-central2-c"],
    "disk.type": "pd-ssd",
    "disk.gib": 300,
    "labels": {"a": "b"},
    "taints": [],
    "taints.0.key": "other",
    "taints.0.value": "x",
    "taints.0.effect": "NoExecute",
    "tags": ["internal"],
    "spot": True,
    "reservation.name": "ours",
    "reservation.project": "lender-project",
}
"""What all pools have."""
ANOTHER: Object = {
    "project": "your-project",
    "region": ("us-central1", {"zones": [], "pools": {}}),
    "zones": ["us-central2-c"],
    "prefix": "other",
    "labels": {"team": "ml"},
    "deletionProtection": False,
    "forceDestroy": True,
    "state.bucket": "my-states",
    "state.prefix": "elsewhere",
    "automation.create": False,
    "automation.bucket": "your-automation",
    "automation.location": "us",
    "automation.serviceAccount": "somebody-else",
    "automation.services": ["dns.googleapis.com"],
    "automation.roles": ["roles/dns.admin"],
    "automation.cloudBuild": False,
    "network.name": "mine",
    "network.subnet.name": "mine",
    "network.subnet.nodes": "10.1.0.0/20",
    "network.subnet.pods": "10.2.0.0/20",
    "network.subnet.services": "10.4.0.0/20",
    "network.nat": False,
    "network.existing": EXISTING["network"]["existing"],
    "network.existing.hostProject": ("shared-net", EXISTING),
    "network.existing.network": ("other", EXISTING),
    "network.existing.subnet": ("other", EXISTING),
    "network.existing.podsRange": ("other", EXISTING),
    "network.existing.servicesRange": ("other", EXISTING),
    "cluster.name": "mine",
    "cluster.description": "Other words",
    "cluster.mode": ("autopilot", {"pools": {}}),
    "cluster.zonal": True,
    "cluster.version": "1.33",
    "cluster.releaseChannel": "rapid",
    "cluster.autoUpgrade": (False, {"cluster.releaseChannel": "none"}),
    "cluster.private": None,
    "cluster.private.nodes": False,
    "cluster.private.endpoint": True,
    "cluster.private.controlPlaneRange": "10.5.0.0/28",
    "cluster.private.authorizedNetworks": {"office": "198.51.100.0/24"},
    "cluster.maintenance": None,
    "cluster.maintenance.start": "05:00",
    **{f"pools.{kind}.{kind}.{path}": value for kind in ("cpu", "tpu", "gpu") for path, value in POOL.items()},
    "pools.cpu.cpu.machineType": "e2-medium",
    "pools.cpu.cpu.nodes": 2,
    "pools.cpu.some.autoscaling.min": 1,
    "pools.cpu.some.autoscaling.max": 2,
    "pools.tpu.tpu.type": "v4-32",
    "pools.tpu.tpu.topology": ("4x8x4", {"pools.tpu.tpu.type": "v4-256"}, {"pools.tpu.tpu.topology": "4x4x8"}),
    "pools.tpu.tpu.count": 2,
    "pools.tpu.tpu.autoscaling": True,
    "pools.tpu.tpu.group": "pair",
    "pools.gpu.gpu.machineType": "n1-standard-8",
    "pools.gpu.gpu.accelerator": "nvidia-tesla-v100",
    "pools.gpu.gpu.acceleratorCount": 2,
    "pools.gpu.gpu.driver": "none",
    "pools.gpu.gpu.gvnic": True,
    "pools.gpu.gpu.localSsds": 1,
    "pools.gpu.gpu.nodes": 2,
    "pools.gpu.more.autoscaling.min": 1,
    "identities.nodes.name": "other-nodes",
    "identities.nodes.existing": "there@my-project.iam.gserviceaccount.com",
    "identities.nodes.roles": ["roles/logging.logWriter"],
    "identities.workloads.trainer.existing": "there@my-project.iam.gserviceaccount.com",
    "identities.workloads.trainer.roles": ["roles/logging.logWriter"],
    "identities.workloads.trainer.namespace": "elsewhere",
    "identities.workloads.trainer.serviceAccount": "worker",
    "buckets.my-data.location": "us",
    "buckets.my-data.storageClass": "COLDLINE",
    "buckets.my-data.versioning": True,
    "buckets.my-data.readers": ["trainer"],
    "buckets.my-data.writers": ["trainer"],
    "buckets.my-data.deleteAfterDays": 30,
    "registry.name": "mine",
    "registry.location": "us",
    "registry.existing": "us-docker.pkg.dev/my-project/there",
    "registry.build": ["controllers"],
    "tensorboard.name": "mine",
    "loadMetrics.topic": "mine",
    "loadMetrics.dataset": "mine",
    "loadMetrics.table": "mine",
    "loadMetrics.location": "us",
    "selfService.namespace": "elsewhere",
    "selfService.configConnector.serviceAccount": "other-operator",
    "selfService.configConnector.roles": ["roles/dns.admin"],
    "selfService.configConnector.grants": ["roles/dns.reader"],
    "selfService.project.name": "other",
    "selfService.project.folder": "2",
    "selfService.project.organization": ("3", {"selfService.project.folder": ""}, {"selfService.project.organization": "4"}),
    "selfService.modelRegistries.0.secret": "other",
    "selfService.modelRegistries.0.file": "other.json",
    "selfService.graphs": [],
    "addons.jobset": (False, {"addons.slices": False}),
    "addons.kueue": False,
    "addons.slices": False,
    "addons.graphs": False,
    "addons.image": "registry.example/controllers:1",
    "addons.gateway": True,
    "addons.mesh": True,
    "addons.versions.jobset": "v0.11.0",
    "addons.versions.kueue": "v0.14.0",
    "addons.versions.configConnector": "1.150.0",
    "addons.checksums.jobset": "a" * 64,
    "addons.checksums.kueue": "a" * 64,
    "addons.checksums.configConnector": "a" * 64,
    "queues.sharing": ("one-queue", {"teams.research.shares": {}}),
    "queues.name": "other",
    "queues.strategy": "StrictFIFO",
    "queues.preemption": False,
    "queues.reclaim": False,
    "queues.priorities": {"only": 1},
    "queues.cpu": "7",
    "queues.memory": "7Gi",
    "queues.readyWithin": "10m",
    "teams.research.namespace": "elsewhere",
    "teams.research.queue": "other",
    "teams.research.members": ["group:research@example.com"],
    "teams.research.serviceAccount": "worker",
    "teams.writing.identity": "writers",
    "teams.research.shares.v4-16.chips": 4,
    "teams.research.shares.v4-16.borrow": 2,
    "teams.research.shares.v4-16.lend": 2,
    "teams.research.mostJobs": 7,
}
"""Another value for each field, by its path; with it what must be changed for that, before and on both sides."""
WITHOUT: dict[str, str] = {}
"""Fields that rightly change nothing that is made, and why."""


def environment(changed: Object) -> Environment:
    """The whole document with other values at some paths."""
    [document] = yamls.load_all(WHOLE, "environment.yaml")
    spec = deepcopy(document.data)
    for path, value in changed.items():
        _put(spec, path.split("."), deepcopy(value))
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "whole"}}
    [document] = yamls.load_all(orjson.dumps({**head, "spec": spec}).decode(), "environment.yaml")
    found, problems = documents.check(document)
    assert problems == []
    assert isinstance(found, Environment)
    return found


def _put(spec: Any, path: list[str], value: Any) -> None:
    for name, following in pairwise(path):
        if isinstance(spec, list):
            spec = spec[int(name)]
        else:
            if spec.get(name) is None:
                spec[name] = {"name": "ours"} if name == "reservation" else [] if following.isdigit() else {}
            spec = spec[name]
    spec[path[-1]] = value


def produced(found: Environment) -> bytes:
    """All that comes of an environment: Terraform's variables, builds, deployments, and the objects of its cluster."""
    graphs = [each.data for each in published(found, FOLDER)]
    found = with_roles(found, tuple(graphs))
    registries = found.spec.self_service.model_registries if found.spec.self_service else ()
    given = compose.Given(
        queues=manifests(found) if found.spec.addons.kueue or found.spec.teams else [],
        graphs=graphs,
        secrets={each.secret: {"key": "x"} for each in registries},
        releases=environments.brought(found),
    )
    whole = {
        "stages": [asdict(each) for each in stages(found)],
        "builds": cloudbuild.builds(found),
        "inputs": [manager.inputs(found, each) for each in manager.deployments(found)],
        "scripts": manager.scripts(found),
        "releases": [asdict(each) for each in releases(found.spec)],
        "files": [str(each) for each in secrets.missing(found, Path("/nowhere"))],
        "steps": [(each.name, each.objects) for each in compose.steps(found, given)],
    }
    return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS, default=str)


@pytest.fixture(autouse=True)
def _files_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamls, "load_path", lambda path: deepcopy(_documents(path)))


_read = yamls.load_path


@cache
def _documents(path: Path) -> list[yamls.Document]:
    return _read(path)


@cache
def usual() -> bytes:
    """What comes of the document as it is."""
    return produced(environment({}))


@pytest.mark.parametrize("path", ANOTHER)
def test_another_value_gives_something_else(path: str) -> None:
    given = ANOTHER[path]
    value, *around = given if isinstance(given, tuple) else (given,)
    common = around[0] if around else {}
    before = around[1] if len(around) > 1 else {}
    found = produced(environment({**common, path: value}))
    same = found == (produced(environment({**common, **before})) if around else usual())
    assert not same, f"{path} changes nothing"


def test_every_field_is_tried() -> None:
    tried = {each for path in ANOTHER for each in _fields_of(path)}
    assert sorted(set(_fields(EnvironmentSpec, set())) - tried) == sorted(WITHOUT)


def _fields(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[str]:
    """Every field of a document, by the model that has it."""
    if model in seen:
        return
    seen.add(model)
    for name, field in model.model_fields.items():
        yield f"{model.__name__}.{name}"
        for inner in _models(field.annotation):
            yield from _fields(inner, seen)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def _fields_of(path: str) -> Iterator[str]:
    """The fields that a path goes through. Names of things and numbers in lists are no fields."""
    model: type[BaseModel] | None = EnvironmentSpec
    inner: list[type[BaseModel]] = []
    for part in path.split("."):
        names = {field.alias or name: name for name, field in model.model_fields.items()} if model else {}
        if model is None or part not in names:
            model = inner[0]
            continue
        yield f"{model.__name__}.{names[part]}"
        annotation = model.model_fields[names[part]].annotation
        inner = list(_models(annotation))
        model = inner[0] if inner and not _is_container(annotation) else None


def _is_container(annotation: Any) -> bool:
    return any(typing.get_origin(each) in (dict, list) for each in (annotation, *typing.get_args(annotation)))


@pytest.mark.parametrize("folder", sorted(file.parent for file in modules().rglob("variables.tf")), ids=lambda each: each.name)
def test_every_variable_of_a_module_is_used_in_it(folder: Path) -> None:
    """What a document says goes into Terraform's variables; there it must go on."""
    declared = (folder / "variables.tf").read_text()
    used = re.sub(r'(?m)^variable "\w+" \{$', "", "\n".join(file.read_text() for file in folder.glob("*.tf")))
    for name in re.findall(r'(?m)^variable "(\w+)"', declared):
        assert re.search(rf"\bvar\.{name}\b", used), f"{folder.name}: {name}"
    handed_on = (modules() / "modules").rglob("*.tf") if folder.parent.name == "stages" else ()
    rest = "\n".join(file.read_text() for file in (*folder.glob("*.tf"), *handed_on) if file.name != "variables.tf")
    for part in re.findall(r"(?m)^ {4,}(\w+) += (?:optional|string|number|bool|list|map|object)\b", declared):
        assert re.search(rf"\.{part}\b", rest), f"{folder.name}: {part} of an object"
