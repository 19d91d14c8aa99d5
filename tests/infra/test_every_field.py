"""Every field of an Environment has an effect: another value changes a resource, a build or the cluster."""

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

from sliceworks.base import yaml_documents
from sliceworks.infra import cloudbuild, infrastructure_manager
from sliceworks.infra.cluster import composition
from sliceworks.infra.cluster.addon import required_releases
from sliceworks.infra.stack import modules_folder
from sliceworks.infra.stages import compile_stages
from sliceworks.platform.cluster_contents import add_graph_roles, load_published_graphs
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment, EnvironmentSpec
from sliceworks.training.queues import build_manifests

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
cluster: {{private: {{controlPlaneRange: 10.3.0.0/28}}}}
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
WINDOW = {"start": "2026-01-10T00:00:00Z", "end": "2026-01-10T06:00:00Z", "recurrence": "FREQ=WEEKLY;BYDAY=SA"}
EXCLUSION = {"launch": {"start": "2026-02-01T00:00:00Z", "end": "2026-05-01T00:00:00Z", "scope": "NO_UPGRADES"}}
KEY = "projects/keys/locations/us-central2/keyRings/ml/cryptoKeys/gke"
POOL: Object = {
    "zones": ["us-central2-c"],
    "maxPods": 16,
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
    "automation.serviceAccount": "another-owner",
    "automation.services": ["dns.googleapis.com"],
    "automation.roles": ["roles/dns.admin"],
    "automation.cloudBuild": False,
    "automation.buildMachineType": "e2-highcpu-32",
    "network.name": "mine",
    "network.subnet.name": "mine",
    "network.subnet.nodes": "10.1.0.0/20",
    "network.subnet.pods": "10.2.0.0/20",
    "network.subnet.services": "10.4.0.0/20",
    "network.nat": False,
    "network.flowLogs": True,
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
    "cluster.autoUpgrade": False,
    "cluster.private": None,
    "cluster.private.nodes": False,
    "cluster.private.endpoint": True,
    "cluster.private.controlPlaneRange": "10.5.0.0/28",
    "cluster.private.authorizedNetworks": {"office": "198.51.100.0/24"},
    "cluster.private.dnsEndpoint": False,
    "cluster.maintenance.start": "05:00",
    "cluster.maintenance.recurring": WINDOW,
    "cluster.maintenance.recurring.start": ("2026-01-10T01:00:00Z", {"cluster.maintenance.recurring": WINDOW}),
    "cluster.maintenance.recurring.end": ("2026-01-10T07:00:00Z", {"cluster.maintenance.recurring": WINDOW}),
    "cluster.maintenance.recurring.recurrence": ("FREQ=DAILY", {"cluster.maintenance.recurring": WINDOW}),
    "cluster.maintenance.exclusions": EXCLUSION,
    "cluster.maintenance.exclusions.launch.start": ("2026-03-01T00:00:00Z", {"cluster.maintenance.exclusions": EXCLUSION}),
    "cluster.maintenance.exclusions.launch.end": ("2026-06-01T00:00:00Z", {"cluster.maintenance.exclusions": EXCLUSION}),
    "cluster.maintenance.exclusions.launch.scope": ("NO_MINOR_UPGRADES", {"cluster.maintenance.exclusions": EXCLUSION}),
    "cluster.security.secretsKey": KEY,
    "cluster.security.bootDiskKey": KEY,
    "cluster.security.binaryAuthorization": True,
    "cluster.security.posture": "basic",
    "cluster.security.intranodeVisibility": True,
    "cluster.security.controlPlaneLogs": ["APISERVER"],
    "cluster.security.group": "gke-security-groups@example.com",
    "cluster.security.kubeletReadOnlyPort": True,
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
    "identities.workloads.trainer.roles": ["roles/pubsub.publisher"],
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
    "loadMetrics.schemaName": "mine",
    "loadMetrics.subscription": "mine",
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
    "addons.meshChannel": ("rapid", {"addons.mesh": True}),
    "addons.ingressNamespace": ("edge", {"addons.mesh": True}),
    "addons.versions.jobset": "v0.11.0",
    "addons.versions.kueue": "v0.16.0",
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
    "teams.research.maxJobs": 7,
}
"""Another value for each field, by its path; with it what must be changed for that, before and on both sides."""
WITHOUT: dict[str, str] = {}
"""Fields that correctly have no effect on outputs, and why."""


def environment(changed: Object) -> Environment:
    """The full document with other values at some paths."""
    [document] = yaml_documents.load_all(WHOLE, "environment.yaml")
    spec = deepcopy(document.data)
    for path, value in changed.items():
        _put(spec, path.split("."), deepcopy(value))
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "whole"}}
    [document] = yaml_documents.load_all(orjson.dumps({**head, "spec": spec}).decode(), "environment.yaml")
    result, problems = documents.check(document)
    assert problems == []
    assert isinstance(result, Environment)
    return result


def _put(spec: Any, path: list[str], value: Any) -> None:
    for name, following in pairwise(path):
        if isinstance(spec, list):
            spec = spec[int(name)]
        else:
            if spec.get(name) is None:
                spec[name] = {"name": "ours"} if name == "reservation" else [] if following.isdigit() else {}
            spec = spec[name]
    spec[path[-1]] = value


def produced(result: Environment) -> bytes:
    """All outputs of an environment: Terraform variables, builds, deployments, and cluster objects."""
    graphs = [item.data for item in load_published_graphs(result, FOLDER)]
    result = add_graph_roles(result, tuple(graphs))
    registries = result.spec.self_service.model_registries if result.spec.self_service else ()
    inputs = composition.ClusterInputs(
        queues=build_manifests(result) if result.spec.addons.kueue or result.spec.teams else [],
        graphs=graphs,
        secrets={item.secret: {"key": "x"} for item in registries},
        releases=environments.required_release_objects(result),
    )
    whole = {
        "stages": [asdict(stage) for stage in compile_stages(result)],
        "builds": cloudbuild.builds(result),
        "inputs": [infrastructure_manager.inputs(result, deployment) for deployment in infrastructure_manager.deployments(result)],
        "scripts": infrastructure_manager.scripts(result),
        "releases": [asdict(release) for release in required_releases(result.spec)],
        "files": [str(item) for item in composition.missing_secret_files(result, Path("/nowhere"))],
        "steps": [(item.name, item.objects) for item in composition.compose_steps(result, inputs)],
    }
    return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS, default=str)


@pytest.fixture(autouse=True)
def _files_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "load_path", lambda path: deepcopy(_documents(path)))


_read = yaml_documents.load_path


@cache
def _documents(path: Path) -> list[yaml_documents.Document]:
    return _read(path)


@cache
def usual() -> bytes:
    """The outputs of the unchanged document."""
    return produced(environment({}))


@pytest.mark.parametrize("path", ANOTHER)
def test_changed_field_changes_an_output(path: str) -> None:
    alternative = ANOTHER[path]
    value, *around = alternative if isinstance(alternative, tuple) else (alternative,)
    common = around[0] if around else {}
    before = around[1] if len(around) > 1 else {}
    result = produced(environment({**common, path: value}))
    same = result == (produced(environment({**common, **before})) if around else usual())
    assert not same, f"{path} changes nothing"


def test_every_field_is_covered() -> None:
    tried = {item for path in ANOTHER for item in _fields_of(path)}
    assert sorted(set(_fields(EnvironmentSpec, set())) - tried) == sorted(WITHOUT)


def _fields(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[str]:
    """Every field of a document, with its model."""
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
    """The fields on a path, without names of map entries and list indexes."""
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
    return any(typing.get_origin(item) in (dict, list) for item in (annotation, *typing.get_args(annotation)))


@pytest.mark.parametrize(
    "folder", sorted(file.parent for file in modules_folder().rglob("variables.tf")), ids=lambda each: each.name
)
def test_every_module_variable_is_used(folder: Path) -> None:
    """Values of a document become Terraform variables, which the module must use."""
    declared = (folder / "variables.tf").read_text()
    used = re.sub(r'(?m)^variable "\w+" \{$', "", "\n".join(file.read_text() for file in folder.glob("*.tf")))
    for name in re.findall(r'(?m)^variable "(\w+)"', declared):
        assert re.search(rf"\bvar\.{name}\b", used), f"{folder.name}: {name}"
    handed_on = (modules_folder() / "modules").rglob("*.tf") if folder.parent.name == "stages" else ()
    rest = "\n".join(file.read_text() for file in (*folder.glob("*.tf"), *handed_on) if file.name != "variables.tf")
    for part in re.findall(r"(?m)^ {4,}(\w+) += (?:optional|string|number|bool|list|map|object)\b", declared):
        assert re.search(rf"\.{part}\b", rest), f"{folder.name}: {part} of an object"
