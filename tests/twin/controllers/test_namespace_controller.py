"""Namespaces: the objects that each one gets, and deletion with all content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base.errors import ApiError
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

if TYPE_CHECKING:
    import pytest

    from sliceworks.twin.apiserver.auth.authentication import User

_NS = "/api/v1/namespaces"
Obj = dict[str, Any]


async def conditions(twin: EmbeddedTwin, name: str) -> dict[str, tuple[str, str, str]]:
    result = await twin.do("GET", f"{_NS}/{name}")
    return {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in result["status"].get("conditions", ())
    }


def test_default_account_and_root_ca_are_restored() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        await twin.quiet()
        await twin.do("DELETE", f"{_NS}/a/serviceaccounts/default")
        await twin.do("PATCH", f"{_NS}/a/configmaps/kube-root-ca.crt", {"data": {"ca.crt": "bad"}})
        await twin.quiet()
        await twin.do("GET", f"{_NS}/a/serviceaccounts/default")
        result = await twin.do("GET", f"{_NS}/a/configmaps/kube-root-ca.crt")
        assert result["data"] == {"ca.crt": "the authority"}
        assert result["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA bundle")

    run_on_twin(main)


def test_pod_can_be_created_right_after_its_namespace() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        await twin.do("POST", f"{_NS}/a/pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})

    run_on_twin(main)


def test_namespace_is_deleted_with_its_content() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        await twin.do("POST", f"{_NS}/a/configmaps", {"metadata": {"name": "c"}})
        await twin.do("POST", f"{_NS}/a/secrets", {"metadata": {"name": "s"}})
        await twin.do("DELETE", f"{_NS}/a")
        await twin.quiet()
        assert await twin.gone(f"{_NS}/a")
        assert not list(twin.cluster.store.scan("/configmaps", "a"))

    run_on_twin(main)


def test_remaining_content_is_reported_and_pods_are_deleted_first() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        held: Obj = {"finalizers": ["x.io/z"]}
        container = {"name": "c", "image": "x"}
        await twin.do("POST", f"{_NS}/a/pods", {"metadata": {"name": "p", **held}, "spec": {"containers": [container]}})
        await twin.do("POST", f"{_NS}/a/configmaps", {"metadata": {"name": "c", "finalizers": ["x.io/z", "x.io/w"]}})
        await twin.do("POST", f"{_NS}/a/configmaps", {"metadata": {"name": "d", **held}})
        await twin.do("DELETE", f"{_NS}/a")
        await twin.quiet()
        assert not await twin.gone(f"{_NS}/a/serviceaccounts/default")
        assert {status for status, _, _ in (await conditions(twin, "a")).values()} == {"False"}
        await twin.do("PATCH", f"{_NS}/a/pods/p", {"metadata": {"finalizers": None}})
        await twin.quiet()
        assert await twin.gone(f"{_NS}/a/serviceaccounts/default")
        result = await conditions(twin, "a")
        assert result["NamespaceDeletionDiscoveryFailure"] == (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        )
        assert result["NamespaceDeletionContentFailure"] == (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        )
        assert result["NamespaceContentRemaining"] == (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances",
        )
        assert result["NamespaceFinalizersRemaining"] == (
            "True",
            "SomeFinalizersRemain",
            (
                "Some content in the namespace has finalizers remaining: "
                "x.io/w in 1 resource instances, x.io/z in 2 resource instances"
            ),
        )
        for name in ("c", "d"):
            await twin.do("PATCH", f"{_NS}/a/configmaps/{name}", {"metadata": {"finalizers": None}})
        await twin.quiet()
        assert await twin.gone(f"{_NS}/a")

    run_on_twin(main)


def test_failed_deletion_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = 3
    write = ControllerContext.write

    async def refuse(
        context: ControllerContext, user: User, verb: str, path: str, body: Obj | None = None, **options: str
    ) -> bytes:
        nonlocal refusals
        if (verb, path) == ("DELETE", f"{_NS}/a/configmaps") and refusals:
            refusals -= 1
            raise ApiError("not now")
        return await write(context, user, verb, path, body, **options)

    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        await twin.do("POST", f"{_NS}/a/configmaps", {"metadata": {"name": "c"}})
        monkeypatch.setattr(ControllerContext, "write", refuse)
        await twin.do("DELETE", f"{_NS}/a")
        await twin.quiet()
        assert await twin.gone(f"{_NS}/a")
        assert not refusals

    run_on_twin(main)


def test_namespace_with_its_own_finalizer_stays_empty() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a", "finalizers": ["x.io/y"]}})
        await twin.do("DELETE", f"{_NS}/a")
        await twin.quiet()
        result = await twin.do("GET", f"{_NS}/a")
        assert "finalizers" not in result["spec"]
        assert (await conditions(twin, "a"))["NamespaceContentRemaining"][0] == "False"
        await twin.do("PATCH", f"{_NS}/a", {"metadata": {"finalizers": None}})
        assert await twin.gone(f"{_NS}/a")

    run_on_twin(main)
