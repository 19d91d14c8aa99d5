"""What happens to namespaces: what they get when they begin, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded import Embedded, on_twin

from sliceworks.base.errors import ApiError
from sliceworks.twin.controllers.world import World

if TYPE_CHECKING:
    import pytest

    from sliceworks.twin.auth.identity import User

_NS = "/api/v1/namespaces"
Obj = dict[str, Any]


async def conditions(twin: Embedded, name: str) -> dict[str, tuple[str, str, str]]:
    found = await twin.do("GET", f"{_NS}/{name}")
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found["status"].get("conditions", ())}


def test_every_namespace_gets_an_account_and_the_authority_and_gets_them_back() -> None:
    async def main(twin: Embedded) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        await twin.quiet()
        await twin.do("DELETE", f"{_NS}/a/serviceaccounts/default")
        await twin.do("PATCH", f"{_NS}/a/configmaps/kube-root-ca.crt", {"data": {"ca.crt": "bad"}})
        await twin.quiet()
        await twin.do("GET", f"{_NS}/a/serviceaccounts/default")
        found = await twin.do("GET", f"{_NS}/a/configmaps/kube-root-ca.crt")
        assert found["data"] == {"ca.crt": "the authority"}
        assert found["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA bundle")

    on_twin(main)


def test_a_pod_may_come_right_after_its_namespace() -> None:
    async def main(twin: Embedded) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        await twin.do("POST", f"{_NS}/a/pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})

    on_twin(main)


def test_a_namespace_ends_with_all_its_content() -> None:
    async def main(twin: Embedded) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        await twin.do("POST", f"{_NS}/a/configmaps", {"metadata": {"name": "c"}})
        await twin.do("POST", f"{_NS}/a/secrets", {"metadata": {"name": "s"}})
        await twin.do("DELETE", f"{_NS}/a")
        await twin.quiet()
        assert await twin.gone(f"{_NS}/a")
        assert not list(twin.cluster.store.scan("/configmaps", "a"))

    on_twin(main)


def test_what_remains_is_told_and_pods_go_first() -> None:
    async def main(twin: Embedded) -> None:
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
        found = await conditions(twin, "a")
        assert found["NamespaceDeletionDiscoveryFailure"] == (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        )
        assert found["NamespaceDeletionContentFailure"] == (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        )
        assert found["NamespaceContentRemaining"] == (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances",
        )
        assert found["NamespaceFinalizersRemaining"] == (
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

    on_twin(main)


def test_what_could_not_be_deleted_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = 3
    send = World.send

    async def refuse(world: World, user: User, verb: str, path: str, body: Obj | None = None, **options: str) -> Obj:
        nonlocal refusals
        if (verb, path) == ("DELETE", f"{_NS}/a/configmaps") and refusals:
            refusals -= 1
            raise ApiError("not now")
        return await send(world, user, verb, path, body, **options)

    async def main(twin: Embedded) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a"}})
        await twin.do("POST", f"{_NS}/a/configmaps", {"metadata": {"name": "c"}})
        monkeypatch.setattr(World, "send", refuse)
        await twin.do("DELETE", f"{_NS}/a")
        await twin.quiet()
        assert await twin.gone(f"{_NS}/a")

    on_twin(main)


def test_a_namespace_with_a_finalizer_of_its_own_stays_empty() -> None:
    async def main(twin: Embedded) -> None:
        await twin.do("POST", _NS, {"metadata": {"name": "a", "finalizers": ["x.io/y"]}})
        await twin.do("DELETE", f"{_NS}/a")
        await twin.quiet()
        found = await twin.do("GET", f"{_NS}/a")
        assert "finalizers" not in found["spec"]
        assert (await conditions(twin, "a"))["NamespaceContentRemaining"][0] == "False"
        await twin.do("PATCH", f"{_NS}/a", {"metadata": {"finalizers": None}})
        assert await twin.gone(f"{_NS}/a")

    on_twin(main)
