"""Roles of Config Connector and rights of the graph controller: exactly what the published graphs need."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import environments

from sliceworks.base.errors import InvalidDocument
from sliceworks.infra.cluster import graph_needs
from sliceworks.infra.stages import stages
from sliceworks.rehearsal.contents import with_roles
from sliceworks.schemas import config_connector

Object = dict[str, Any]


def definition(*resources: Object, **schema: Any) -> Object:
    found = [{"id": f"r{number}", **each} for number, each in enumerate(resources)]
    return {
        "metadata": {"name": "g"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Thing", **schema}, "resources": found},
    }


def connector(kind: str, **spec: Any) -> Object:
    group = config_connector.marks()[kind].group
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
def test_each_kind_needs_its_roles_and_no_others(resource: Object, roles: list[str]) -> None:
    assert graph_needs.roles([definition(resource)]) == roles


def test_every_kind_that_is_known_has_an_entry() -> None:
    policies = {"IAMPolicyMember", "IAMPartialPolicy"}
    assert set(graph_needs.KEEPS) == set(config_connector.marks()) - policies - {"Project"}
    assert set(graph_needs.GRANTS) == {kind for kind, marks in config_connector.marks().items() if marks.iam_target}


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        (connector("Project"), "g, r0: no role is known with which Config Connector keeps a Project"),
        (connector("IAMPolicyMember", resourceRef={"kind": "${x}"}), "keeps a IAMPolicyMember about ${x}"),
        ({"template": {"apiVersion": "sql.cnrm.cloud.google.com/v1beta1", "kind": "SQLInstance"}}, "keeps a SQLInstance"),
    ],
)
def test_what_the_table_does_not_know_is_refused_and_never_given_a_wider_role(resource: Object, said: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        graph_needs.roles([definition(resource)])
    assert said in caught.value.message
    assert caught.value.hint


def test_gemma_needs_four_roles_and_nobody_is_an_owner() -> None:
    environment = with_roles(environments.example("self-service"), [environments.graph()])
    given = next(stage.variables["config_connector"] for stage in stages(environment) if stage.name == "2-cluster")
    assert given["roles"] == [
        "roles/browser",
        "roles/iam.serviceAccountAdmin",
        "roles/resourcemanager.projectIamAdmin",
        "roles/storage.admin",
    ]
    assert given["grants"] == ["roles/storage.insightsCollectorService", "roles/storage.objectUser"]


def test_only_roles_about_the_project_are_given_and_they_must_be_known() -> None:
    own = connector("IAMPartialPolicy", resourceRef={"kind": "IAMServiceAccount"}, bindings=[{"role": "roles/c"}])
    project = connector("IAMPartialPolicy", resourceRef={"kind": "Project"}, bindings=[{"role": "roles/b"}, {"role": "roles/a"}])
    assert graph_needs.grants([definition(own, project)]) == ["roles/a", "roles/b"]
    chosen = connector("IAMPolicyMember", resourceRef={"kind": "Project"}, role="${schema.spec.role}")
    with pytest.raises(InvalidDocument, match=r"g, r0: the role .* is only known later"):
        graph_needs.grants([definition(chosen)])


def test_roles_of_the_document_come_on_top() -> None:
    text = "  selfService: {configConnector: {roles: [roles/pubsub.viewer]}, project: {folder: '1'}}\n"
    service = with_roles(environments.small(text), []).spec.self_service
    assert service is not None
    assert service.config_connector.roles == ["roles/browser", "roles/pubsub.viewer"]


def test_the_controller_may_make_what_graphs_are_made_of_and_only_read_what_they_refer_to() -> None:
    graph = definition(
        {"template": {"apiVersion": "apps/v1", "kind": "Deployment"}},
        {"externalRef": {"apiVersion": "v1", "kind": "Secret"}},
        {"externalRef": {"apiVersion": "v1", "kind": "ConfigMap"}},
        {"template": {"apiVersion": "v1", "kind": "ConfigMap"}},
        connector("IAMPartialPolicy", resourceRef={"kind": "Project"}),
        group="acme.example",
    )
    made, read = ["get", "list", "watch", "create", "patch", "delete"], ["get", "list", "watch"]
    found = {(rule["apiGroups"][0], rule["resources"][0]): rule["verbs"] for rule in graph_needs.rules([graph])}
    assert found == {
        ("", "configmaps"): made,
        ("", "secrets"): read,
        ("acme.example", "things"): [*read, "patch", "update", "delete"],
        ("acme.example", "things/status"): ["get", "update", "patch"],
        ("apps", "deployments"): made,
        ("iam.cnrm.cloud.google.com", "iampartialpolicies"): made,
    }


def test_a_plural_that_a_cluster_knows_better_is_taken_from_it() -> None:
    graph = definition({"template": {"apiVersion": "acme.example/v1", "kind": "Goose"}})
    [rule] = graph_needs.rules([graph], {("acme.example", "Goose"): "gooses"})
    assert rule["resources"] == ["gooses"]
