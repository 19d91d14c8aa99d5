"""Connecting to a cluster that Terraform created: from the stage's outputs, with a Google token, without a kubeconfig."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from tests.support.clusters import TwinCluster

from sliceworks.base import clock
from sliceworks.base.errors import Unauthorized, Unreachable
from sliceworks.cloud.credentials import Token
from sliceworks.infra.target import connect_cluster
from sliceworks.kube.resources import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class Renewing:
    """Credentials whose first token is expired."""

    def __init__(self, good: str) -> None:
        self.tokens, self.refusals = ["stale", good], 0

    async def headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.tokens[min(self.refusals, 1)]}"}

    def invalidate(self) -> None:
        self.refusals += 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinCluster]:
    running = TwinCluster(tmp_path_factory.mktemp("twin"))
    yield running
    running.stop()


def outputs(cluster: TwinCluster) -> dict[str, str]:
    """The outputs of stage 2: an address without a scheme, and a base64 certificate."""
    authority = base64.b64encode(cluster.authority.read_bytes()).decode()
    return {"endpoint": cluster.url.removeprefix("https://"), "ca_certificate": authority}


def test_outputs_and_token_are_sufficient(cluster: TwinCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "foreign"))
    renewing = Renewing(cluster.token)

    async def main() -> list[str]:
        async with connect_cluster(outputs(cluster), renewing) as client:
            return [item["metadata"]["name"] for item in (await client.list(NAMESPACE)).items]

    assert "default" in clock.run(main())
    assert renewing.refusals == 1
    assert not (tmp_path / "foreign").exists()


def test_wrong_token_and_wrong_authority_are_errors(cluster: TwinCluster) -> None:
    async def ask(given: dict[str, str], token: str) -> None:
        async with connect_cluster(given, Token(token)) as client:
            await client.list(NAMESPACE)

    with pytest.raises(Unauthorized):
        clock.run(ask(outputs(cluster), "wrong"))
    with pytest.raises(Unreachable, match="is not trusted"):
        clock.run(ask({**outputs(cluster), "ca_certificate": ""}, cluster.token))
