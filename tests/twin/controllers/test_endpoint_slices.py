"""EndpointSlices that a user takes away from their controller."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

Obj = dict[str, Any]
CORE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SERVICE_NAME, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"


@pytest.mark.parametrize("is_mirrored", [False, True])
@pytest.mark.parametrize("change", [{SERVICE_NAME: "other"}, {MANAGED_BY: "me"}])
def test_slice_with_other_labels_is_left_to_the_user(change: dict[str, str], is_mirrored: bool) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        ports: list[Obj] = [{"port": 80}]
        spec: Obj = {"ports": ports, **({} if is_mirrored else {"selector": {"app": "web"}})}
        await twin.do("POST", f"{CORE}/services", {"metadata": {"name": "web"}, "spec": spec})
        if is_mirrored:
            subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}]
            await twin.do("POST", f"{CORE}/endpoints", {"metadata": {"name": "web"}, "subsets": subsets})
        await twin.quiet()
        (own,) = (await twin.do("GET", SLICES))["items"]
        path = f"{SLICES}/{own['metadata']['name']}"
        await twin.do("PATCH", path, {"metadata": {"labels": change}})
        await twin.quiet()
        ports = [{"port": 81}]
        await twin.do("PATCH", f"{CORE}/services/web", {"spec": {"ports": ports}})
        if is_mirrored:
            subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}]
            await twin.do("PATCH", f"{CORE}/endpoints/web", {"subsets": subsets})
        await twin.quiet()
        status, kept = await twin.ask("GET", path)
        is_of_another_service = is_mirrored and SERVICE_NAME in change
        assert status == (404 if is_of_another_service else 200)
        assert is_of_another_service or kept["ports"] == own["ports"]

    run_on_twin(main, workloads=True)
