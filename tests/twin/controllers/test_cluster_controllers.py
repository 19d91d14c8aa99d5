"""The controllers of quotas, aggregated ClusterRoles and storage protection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base import clock
from sliceworks.twin.controllers.builtin.serviceaccount_controller import ServiceAccountController

if TYPE_CHECKING:
    import pytest

_NS = "/api/v1/namespaces/default"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def test_quota_usage_follows_pods() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async def used() -> dict[str, str]:
            status = (await twin.do("GET", f"{_NS}/resourcequotas/q"))["status"]
            assert status["hard"] == {"pods": "2", "requests.cpu": "2", "count/configmaps": "9"}
            result: dict[str, str] = status["used"]
            return result

        hard = {"pods": "2", "requests.cpu": "2", "count/configmaps": "9"}
        await twin.do("POST", f"{_NS}/pods", pod("a"))
        await twin.do("POST", f"{_NS}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await twin.quiet()
        assert await used() == {"pods": "1", "requests.cpu": "500m", "count/configmaps": "1"}
        await twin.do("POST", f"{_NS}/pods", pod("b"))
        assert await used() == {"pods": "2", "requests.cpu": "1", "count/configmaps": "1"}
        status, refused = await twin.ask("POST", f"{_NS}/pods", pod("c"))
        assert status == 403
        assert refused["message"] == 'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
        await twin.do("PATCH", f"{_NS}/pods/a/status", {"status": {"phase": "Succeeded"}})
        await twin.do("DELETE", f"{_NS}/pods/b")
        await twin.quiet()
        assert await used() == {"pods": "0", "requests.cpu": "0", "count/configmaps": "1"}

    run_on_twin(main)


def test_concurrent_writes_do_not_exceed_a_quota() -> None:
    import asyncio

    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", f"{_NS}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}})
        await twin.quiet()
        answers = await asyncio.gather(*(twin.ask("POST", f"{_NS}/pods", pod(f"p{n}")) for n in range(8)))
        assert sorted(status for status, _ in answers) == [201] * 3 + [403] * 5

    run_on_twin(main)


def test_aggregated_cluster_roles_follow_their_parts() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        rules = [{"apiGroups": ["kro.run"], "resources": ["*"], "verbs": ["get"]}]
        labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        await twin.do("POST", _ROLES, {"metadata": {"name": "kro-view", "labels": labels}, "rules": rules})
        await twin.quiet()
        for name in ("view", "edit", "admin"):
            assert rules[0] in (await twin.do("GET", f"{_ROLES}/{name}"))["rules"]
        await twin.do("DELETE", f"{_ROLES}/kro-view")
        await twin.quiet()
        for name in ("view", "edit", "admin"):
            assert rules[0] not in (await twin.do("GET", f"{_ROLES}/{name}"))["rules"]

    run_on_twin(main)


def test_claim_is_protected_while_a_pod_uses_it() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        claims = f"{_NS}/persistentvolumeclaims"
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await twin.do("POST", claims, {"metadata": {"name": "c"}, "spec": spec})
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
        await twin.do("POST", f"{_NS}/pods", pod("p", volumes=[volume], nodeName="n", terminationGracePeriodSeconds=0))
        await twin.do("DELETE", f"{claims}/c")
        await twin.quiet()
        assert (await twin.do("GET", f"{claims}/c"))["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        await twin.do("DELETE", f"{_NS}/pods/p")
        await clock.sleep(1)
        assert await twin.gone(f"{claims}/c")

    run_on_twin(main)


def test_exception_in_one_controller_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_self: ServiceAccountController, _change: object) -> None:
        raise ValueError("broken")

    async def main(twin: EmbeddedTwin) -> None:
        monkeypatch.setattr(ServiceAccountController, "observe", fail)
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "late"}})
        await twin.quiet()
        maps = (await twin.do("GET", "/api/v1/namespaces/late/configmaps"))["items"]
        assert [item["metadata"]["name"] for item in maps] == ["kube-root-ca.crt"]

    run_on_twin(main)
    assert "ServiceAccountController failed on /namespaces /late" in caplog.text
