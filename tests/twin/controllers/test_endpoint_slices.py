"""EndpointSlices whose labels change."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

Obj = dict[str, Any]
CORE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SERVICE_NAME, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"


async def services(twin: EmbeddedTwin) -> dict[str, str]:
    """The Services of the slices by slice."""
    items = (await twin.do("GET", SLICES))["items"]
    return {item["metadata"]["name"]: item["metadata"]["labels"].get(SERVICE_NAME, "") for item in items}


@pytest.mark.parametrize("is_mirrored", [False, True])
@pytest.mark.parametrize("change", [{SERVICE_NAME: "other"}, {MANAGED_BY: "me"}])
def test_service_gets_another_slice_if_its_own_is_taken_away(change: dict[str, str], is_mirrored: bool) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        for name in ("web", "other"):
            spec: Obj = {"ports": [{"port": 80}], **({} if is_mirrored else {"selector": {"app": name}})}
            await twin.do("POST", f"{CORE}/services", {"metadata": {"name": name}, "spec": spec})
        if is_mirrored:
            subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]
            await twin.do("POST", f"{CORE}/endpoints", {"metadata": {"name": "web"}, "subsets": subsets})
        await twin.quiet()
        (own,) = [name for name, service in (await services(twin)).items() if service == "web"]
        await twin.do("PATCH", f"{SLICES}/{own}", {"metadata": {"labels": change}})
        await twin.quiet()
        slices = (await twin.do("GET", SLICES))["items"]
        managed = [item["metadata"] for item in slices if item["metadata"]["labels"][MANAGED_BY] != "me"]
        assert [item["labels"][SERVICE_NAME] for item in managed].count("web") == 1
        assert [item["labels"][SERVICE_NAME] for item in managed].count("other") == (0 if is_mirrored else 1)

    run_on_twin(main, workloads=True)
