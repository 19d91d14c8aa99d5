"""Ten thousand malformed requests: never a 5xx, always a valid Status, and the server stays healthy.

The twin runs in its own process. With the real programs, a smaller run sends each request to both and compares their codes.
"""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

import pytest
from tests.support.clusters import RealCluster, TwinCluster, real_enabled
from tests.support.fuzzer import Fuzz, Fuzzer
from tests.support.http import JSON, YAML
from tests.support.polling import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.http import Answer, Api

NS = "fuzz"
ACCOUNTS = f"/api/v1/namespaces/{NS}/serviceaccounts"
FINALIZED = {
    f"/api/v1/namespaces/{NS}/persistentvolumeclaims",
    f"/api/v1/namespaces/{NS}/replicationcontrollers",
    f"/apis/batch/v1/namespaces/{NS}/jobs",
}
"""Kinds whose deletion a controller completes after the response: it removes a finalizer."""
MEMORY = 400_000_000
PLAIN = {404: "404 page not found\n", 400: "400 Bad Request"}


def prepare(api: Api) -> None:
    """Create the fuzzed namespace and wait for its service account."""
    api.post("/api/v1/namespaces", {"metadata": {"name": NS}}).ok(201)
    assert api.post(ACCOUNTS, {"metadata": {"name": "default"}}).status in (201, 409)


def send(api: Api, request: Fuzz) -> Answer:
    """Send a generated request."""
    return api.request(
        request.method,
        request.path,
        request.body,
        query=request.query or None,
        content_type=request.content_type,
        accept=request.accept,
        headers=request.headers,
    )


def names(api: Api, collection: str) -> set[str]:
    """The names of all objects of a collection."""
    return {item["metadata"]["name"] for item in api.get(collection).ok().json["items"]}


def complaint(request: Fuzz, answer: Answer) -> str:
    """The problem with a response, if any."""
    if answer.status == 503 and "/proxy" in request.path:
        return ""  # the real server's response for a Service without endpoints
    if answer.status >= 500:
        return f"{answer.status} {answer.body[:300]!r}"
    if answer.status < 400 or request.method == "HEAD":
        return ""
    content_type = answer.headers.get("Content-Type")
    if content_type not in (JSON, YAML):
        plain = PLAIN.get(answer.status)
        return "" if plain and answer.text.startswith(plain) else f"{answer.status} is not a Status: {answer.body[:200]!r}"
    status = answer.yaml if content_type == YAML else answer.json
    if (status.get("kind"), status.get("status"), status.get("code")) != ("Status", "Failure", answer.status) or not status.get(
        "message"
    ):
        return f"{answer.status} is not a valid Status: {answer.body[:300]!r}"
    return ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
def test_malformed_requests_are_rejected(tmp_path: Path, seed: int) -> None:
    twin = TwinCluster(tmp_path)
    try:
        prepare(twin.api)
        complaints = []
        for request in Fuzzer(seed, NS).requests(10_000):
            try:
                wrong = complaint(request, send(twin.api, request))
            except (http.client.HTTPException, OSError) as error:
                wrong = repr(error)
            if wrong:
                complaints.append(f"{wrong}\n    {request}")
        assert not complaints, f"{len(complaints)} bad answers:\n" + "\n".join(complaints[:30])
        twin.api.get("/readyz").ok(200)
        twin.api.post(f"/api/v1/namespaces/{NS}/configmaps", {"metadata": {"name": "still-well"}}).ok(201)
        assert twin.resident_bytes() < MEMORY
        log = twin.process.log.read_text()
        assert "Traceback" not in log, log[-3000:]
    finally:
        twin.stop()


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.skipif(not real_enabled(), reason="compares with the real kube-apiserver: SLICEWORKS_REAL=1")
def test_codes_equal_those_of_the_real_server(tmp_path: Path) -> None:
    (tmp_path / "twin").mkdir()
    (tmp_path / "real").mkdir()
    # The twin always protects claims and volumes; a deletion is complete when these controllers have removed their finalizers.
    protection = "--controllers=persistentvolumeclaim-protection-controller,persistentvolume-protection-controller"
    twin, real = TwinCluster(tmp_path / "twin"), RealCluster(tmp_path / "real", flags=(protection,))
    try:
        accepted: list[str] = []
        coded: list[str] = []
        for api in (twin.api, real.api):
            prepare(api)
        for request in Fuzzer(7, NS).requests(3_000):
            here, there = send(twin.api, request), send(real.api, request)
            if request.method == "DELETE" and request.path.endswith("/serviceaccounts"):
                # Pods need the service account that a controller recreates.
                for api in (twin.api, real.api):
                    eventually(lambda: api.get(f"{ACCOUNTS}/default").status == 200, what="the account is back")  # noqa: B023
            if request.method == "DELETE" and {200, 202} & {here.status, there.status}:
                for collection in FINALIZED:
                    if request.path.startswith(collection):
                        eventually(
                            lambda: names(twin.api, collection) == names(real.api, collection),  # noqa: B023
                            what="both servers have completed the deletion",
                        )
            # The twin rejects an unknown HTTP method before it reads the path; the real server checks the path first.
            if here.status == there.status or there.status >= 500 or request.method == "BREW":
                continue
            text = f"twin {here.status}, real {there.status}\n    {request}\n    {here.body[:250]!r}\n    {there.body[:250]!r}"
            (coded if min(here.status, there.status) >= 400 else accepted).append(text)
        assert not accepted, f"{len(accepted)} are accepted by one and rejected by the other:\n" + "\n".join(accepted[:40])
        # A request with several errors is rejected for one of them; the order of checks may rarely differ.
        assert len(coded) <= 30, f"{len(coded)} are refused with another code:\n" + "\n".join(coded[:40])
    finally:
        twin.stop()
        real.stop()
