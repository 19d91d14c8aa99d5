"""Quotas, aggregated roles and protected storage are kept up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded import Embedded, on_twin

from sliceworks.base import clock
from sliceworks.twin.controllers.accounts import ServiceAccounts

if TYPE_CHECKING:
    import pytest

_NS = "/api/v1/namespaces/default"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def test_a_quota_is_charged_at_once_and_set_free_later() -> None:
    async def main(twin: Embedded) -> None:
        async def used() -> dict[str, str]:
            status = (await twin.do("GET", f"{_NS}/resourcequotas/q"))["status"]
            assert status["hard"] == {"pods": "2", "requests.cpu": "2", "count/configmaps": "9"}
            found: dict[str, str] = status["used"]
            return found

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

    on_twin(main)


def test_several_writes_at_once_do_not_overdraw() -> None:
    import asyncio

    async def main(twin: Embedded) -> None:
        await twin.do("POST", f"{_NS}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}})
        await twin.quiet()
        answers = await asyncio.gather(*(twin.ask("POST", f"{_NS}/pods", pod(f"p{n}")) for n in range(8)))
        assert sorted(status for status, _ in answers) == [201] * 3 + [403] * 5

    on_twin(main)


def test_aggregated_roles_follow_their_parts() -> None:
    async def main(twin: Embedded) -> None:
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

    on_twin(main)


def test_a_claim_stays_while_a_pod_uses_it() -> None:
    async def main(twin: Embedded) -> None:
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

    on_twin(main)


def test_a_controller_that_fails_on_a_change_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_self: ServiceAccounts, _change: object) -> None:
        raise ValueError("broken")

    async def main(twin: Embedded) -> None:
        monkeypatch.setattr(ServiceAccounts, "observe", fail)
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "late"}})
        await twin.quiet()
        maps = (await twin.do("GET", "/api/v1/namespaces/late/configmaps"))["items"]
        assert [each["metadata"]["name"] for each in maps] == ["kube-root-ca.crt"]

    on_twin(main)
    assert "ServiceAccounts failed on /namespaces /late" in caplog.text
