"""A twin that was started without some of its controllers, for controllers of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.embedded_twin import run_on_twin

from sliceworks.base.errors import UsageError
from sliceworks.twin.apiserver.auth.service_account_token import TokenIssuer
from sliceworks.twin.controllers import controller_names, installation, manager

if TYPE_CHECKING:
    from tests.support.embedded_twin import EmbeddedTwin

JOBS, PODS = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"
CONTAINERS = {"containers": [{"name": "main", "image": "example.com/app:1"}]}
POD = {"metadata": {"name": "p"}, "spec": CONTAINERS}
JOB = {
    "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
    "spec": {"template": {"spec": {"restartPolicy": "Never", **CONTAINERS}}},
}
GROUPS = {"jobset.x-k8s.io", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io"}


def test_names_are_those_of_the_controllers() -> None:
    names = {*installation.CONTROLLERS, *manager.cluster_controllers("", TokenIssuer())}
    assert names == set(controller_names.OF_CONTROLLER_MANAGER)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("job", "did you mean job-controller?"),
        ("jobset,scheduler", "did you mean kube-scheduler?"),
        ("kueu", "did you mean kueue?"),
        ("garbage-collector", "did you mean garbage-collector-controller?"),
        ("argo", f"known: {', '.join(controller_names.KNOWN)}"),
    ],
)
def test_unknown_name_is_an_error_with_the_closest_name(value: str, hint: str) -> None:
    name = value.rpartition(",")[2]
    with pytest.raises(UsageError, match=f"--without: unknown controller '{name}'") as raised:
        controller_names.parse(value)
    assert raised.value.hint == hint


def test_list_of_names() -> None:
    assert controller_names.parse("kueue, jobset,kueue,") == ("kueue", "jobset")
    assert controller_names.parse("") == ()


_ALL_BUT_ONE = ("kube-scheduler", "kube-controller-manager", "volume-provisioner", "jobset", "kueue")


def test_objects_of_controllers_that_do_not_run_are_only_stored() -> None:
    async def play(twin: EmbeddedTwin) -> None:
        # The service account controller does not run either.
        await twin.do("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        await twin.do("POST", PODS, POD)
        job = await twin.do("POST", JOBS, JOB)
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
        await twin.do("DELETE", "/api/v1/namespaces/a")
        await twin.quiet()
        pods = (await twin.do("GET", PODS))["items"]
        assert [(pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in pods] == [("p", None)]
        assert not job["spec"].get("suspend")  # Kueue's webhook would suspend it
        assert (await twin.do("GET", f"{JOBS}/j"))["status"] == {}
        assert (await twin.do("GET", "/api/v1/namespaces/a"))["status"]["phase"] == "Terminating"
        assert GROUPS.isdisjoint(group["name"] for group in (await twin.do("GET", "/apis"))["groups"])
        assert [component.name for component in twin.cluster.controllers.components] == ["cnrm-controller-manager"]

    run_on_twin(play, workloads=True, without=_ALL_BUT_ONE)


def test_one_controller_of_kube_controller_manager_does_not_run() -> None:
    async def play(twin: EmbeddedTwin) -> None:
        await twin.do("POST", PODS, POD)
        await twin.do("POST", JOBS, {**JOB, "metadata": {"name": "j"}})
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
        await twin.do("DELETE", "/api/v1/namespaces/a")
        await twin.quiet()
        assert [pod["metadata"]["name"] for pod in (await twin.do("GET", PODS))["items"]] == ["p"]
        assert await twin.gone("/api/v1/namespaces/a")
        assert {group["name"] for group in (await twin.do("GET", "/apis"))["groups"]} >= GROUPS

    run_on_twin(play, workloads=True, without=("job-controller",))
