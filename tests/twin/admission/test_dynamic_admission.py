"""Webhooks and policies of an embedded cluster: they apply after a restart, and cost nothing when none is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.transport import Request
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.base.transport import Response

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


async def send(cluster: Cluster, method: str, path: str, body: Any = None) -> Response:
    headers = {"authorization": f"Bearer {cluster.token}", "content-type": "application/json"}
    return await cluster.api.handle(Request(method, path, (), headers, orjson.dumps(body) if body is not None else b""))


def test_policy_applies_after_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        async with Cluster(Store(Journal(tmp_path / "store.db")), workloads=False) as cluster:
            assert cluster.api_server.dynamic is None
            spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "false", "message": "never"}]}
            policy = await send(cluster, "POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
            binding = {"policyName": "p", "validationActions": ["Deny"]}
            bound = await send(
                cluster, "POST", f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": binding}
            )
            assert (policy.status, bound.status) == (201, 201)

    async def second() -> None:
        async with Cluster(Store(Journal(tmp_path / "store.db")), workloads=False) as cluster:
            denied = await send(cluster, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert denied.status == 422
            assert orjson.loads(denied.body)["message"].endswith("with binding 'b' denied request: never")
            for path in ("validatingadmissionpolicybindings/b", "validatingadmissionpolicies/p"):
                assert (await send(cluster, "DELETE", f"{GROUP}/{path}")).status == 200
            assert cluster.api_server.dynamic is None
            assert (await send(cluster, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})).status == 201

    clock.run(first(), virtual=True, seed=1)
    clock.run(second(), virtual=True, seed=1)


def test_policies_of_the_conformance_suite() -> None:
    """The policies of Kubernetes' conformance suite for Deployments."""

    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            variables = [
                {"name": "replicas", "expression": "object.spec.replicas"},
                {"name": "oddReplicas", "expression": "variables.replicas % 2 == 1"},
            ]
            message = "'wants replicas > 1, got ' + object.spec.replicas"
            validations = [
                {"expression": "variables.replicas > 1", "messageExpression": message},
                {"expression": "variables.oddReplicas"},
                {"expression": "namespaceObject.metadata.name == 'default'", "message": "other namespace"},
            ]
            rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
            spec = {"matchConstraints": {"resourceRules": [rule]}, "variables": variables, "validations": validations}
            await send(cluster, "POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
            binding = {"policyName": "p", "validationActions": ["Deny"]}
            await send(cluster, "POST", f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": binding})
            messages = {}
            for replicas in (1, 2, 3):
                template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
                deployment = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
                body = {"metadata": {"name": f"d{replicas}"}, "spec": deployment}
                answer = await send(cluster, "POST", "/apis/apps/v1/namespaces/default/deployments", body)
                messages[replicas] = orjson.loads(answer.body).get("message", "")
            denied = "is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression:"
            assert messages == {
                1: f'deployments.apps "d1" {denied} variables.replicas > 1',
                2: f'deployments.apps "d2" {denied} variables.oddReplicas',
                3: "",
            }

    clock.run(main(), virtual=True, seed=1)
