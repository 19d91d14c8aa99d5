"""Roles of Config Connector and permissions of the graphs controller: exactly those that the published graphs need."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support import environments

from sliceworks.base.errors import InvalidDocument
from sliceworks.graph.rbac import graph_rules
from sliceworks.infra.cluster import self_service
from sliceworks.infra.stages import compile_stages
from sliceworks.platform.cluster_contents import add_graph_roles
from sliceworks.schemas import config_connector

Object = dict[str, Any]


def definition(*resources: Object, **schema: Any) -> Object:
    result = [{"id": f"r{number}", **item} for number, item in enumerate(resources)]
    return {
        "metadata": {"name": "g"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Thing", **schema}, "resources": result},
    }


def connector(kind: str, **spec: Any) -> Object:
    group = config_connector.kind_infos()[kind].group
    return {"template": {"apiVersion": f"{group}/v1beta1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}}


@pytest.mark.parametrize(
    ("resource", "roles"),
    [
        (connector("IAMServiceAccount"), ["roles/iam.serviceAccountAdmin"]),
        (connector("StorageBucket"), ["roles/storage.admin"]),
        (connector("PubSubTopic"), ["roles/pubsub.editor"]),
        (connector("ArtifactRegistryRepository"), ["roles/artifactregistry.admin"]),
        (connector("ContainerNodePool"), ["roles/container.clusterAdmin", "roles/iam.serviceAccountUser"]),
        (connector("ContainerCluster"), ["roles/container.clusterAdmin", "roles/iam.serviceAccountUser"]),
        (connector("IAMPolicyMember", resourceRef={"kind": "Project"}), ["roles/resourcemanager.projectIamAdmin"]),
        (connector("IAMPolicyMember", resourceRef={"kind": "StorageBucket"}), ["roles/storage.admin"]),
        (connector("IAMPartialPolicy", resourceRef={"kind": "IAMServiceAccount"}), ["roles/iam.serviceAccountAdmin"]),
        (connector("IAMPolicyMember", resourceRef={"kind": "PubSubTopic"}), ["roles/pubsub.admin"]),
        ({"externalRef": connector("Project")["template"]}, ["roles/browser"]),
        ({"template": {"apiVersion": "v1", "kind": "ConfigMap"}}, []),
    ],
)
def test_each_kind_needs_exactly_its_roles(resource: Object, roles: list[str]) -> None:
    assert self_service.config_connector_roles([definition(resource)]) == roles


def test_every_known_kind_has_an_entry() -> None:
    policies = {"IAMPolicyMember", "IAMPartialPolicy"}
    assert set(self_service.STATEFUL_KINDS) == set(config_connector.kind_infos()) - policies - {"Project"}
    assert set(self_service.GRANTS) == {kind for kind, marks in config_connector.kind_infos().items() if marks.iam_target}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (connector("Project"), "g, r0: no role is known for Config Connector to manage a Project"),
        (connector("IAMPolicyMember", resourceRef={"kind": "${x}"}), "manage a IAMPolicyMember about ${x}"),
        ({"template": {"apiVersion": "sql.cnrm.cloud.google.com/v1beta1", "kind": "SQLInstance"}}, "manage a SQLInstance"),
    ],
)
def test_unknown_kind_is_an_error(resource: Object, expected: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        self_service.config_connector_roles([definition(resource)])
    assert expected in caught.value.message
    assert caught.value.hint


def test_gemma_needs_four_roles_and_no_owner() -> None:
    environment = add_graph_roles(environments.example("self-service"), [environments.graph()])
    connector = next(stage.variables["config_connector"] for stage in compile_stages(environment) if stage.name == "2-cluster")
    assert connector["roles"] == [
        "roles/browser",
        "roles/iam.serviceAccountAdmin",
        "roles/resourcemanager.projectIamAdmin",
        "roles/storage.admin",
    ]
    assert connector["grants"] == ["roles/storage.insightsCollectorService", "roles/storage.objectUser"]


def test_only_known_project_roles_are_granted() -> None:
    own = connector("IAMPartialPolicy", resourceRef={"kind": "IAMServiceAccount"}, bindings=[{"role": "roles/c"}])
    roles = ["roles/viewer", "roles/browser"]
    project = connector("IAMPartialPolicy", resourceRef={"kind": "Project"}, bindings=[{"role": role} for role in roles])
    assert self_service.granted_roles([definition(own, project)]) == sorted(roles)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("${schema.spec.role}", r"g, r0: the role .* is not known in advance"),
        ("roles/storage.objectUsr", r"g, r0: Role roles/storage.objectUsr is not supported .* did you mean .*objectUser\?"),
    ],
)
def test_role_that_cannot_be_granted_is_an_error(role: str, expected: str) -> None:
    chosen = connector("IAMPolicyMember", resourceRef={"kind": "Project"}, role=role)
    with pytest.raises(InvalidDocument) as caught:
        self_service.granted_roles([definition(chosen)])
    assert re.search(expected, f"{caught.value.message} {caught.value.hint}")


def test_roles_of_the_document_are_added() -> None:
    text = "  selfService: {configConnector: {roles: [roles/pubsub.viewer]}, project: {folder: '1'}}\n"
    service = add_graph_roles(environments.small(text), []).spec.self_service
    assert service is not None
    assert service.config_connector.roles == ["roles/browser", "roles/pubsub.viewer"]


def test_controller_permissions_match_graphs() -> None:
    graph = definition(
        {"template": {"apiVersion": "apps/v1", "kind": "Deployment"}},
        {"externalRef": {"apiVersion": "v1", "kind": "Secret"}},
        {"externalRef": {"apiVersion": "v1", "kind": "ConfigMap"}},
        {"template": {"apiVersion": "v1", "kind": "ConfigMap"}},
        connector("IAMPartialPolicy", resourceRef={"kind": "Project"}),
        group="acme.example",
    )
    created, read = ["get", "list", "watch", "create", "patch", "delete"], ["get", "list", "watch"]
    result = {(rule["apiGroups"][0], rule["resources"][0]): rule["verbs"] for rule in graph_rules([graph])}
    assert result == {
        ("", "configmaps"): created,
        ("", "events"): ["list"],
        ("", "pods"): ["list"],
        ("", "secrets"): read,
        ("acme.example", "things"): [*read, "patch", "update", "delete"],
        ("acme.example", "things/status"): ["get", "update", "patch"],
        ("apps", "deployments"): created,
        ("iam.cnrm.cloud.google.com", "iampartialpolicies"): created,
    }


def test_plural_of_the_cluster_takes_precedence() -> None:
    graph = definition({"template": {"apiVersion": "acme.example/v1", "kind": "Goose"}})
    [rule] = graph_rules([graph], {("acme.example", "Goose"): "gooses"})
    assert rule["resources"] == ["gooses"]
