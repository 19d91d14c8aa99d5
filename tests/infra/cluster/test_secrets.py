"""Credentials of model registries: read from files beside the document, and never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import environments

from sliceworks.base.errors import InvalidDocument
from sliceworks.infra.cluster import secrets

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_read_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    environment = environments.example("self-service")
    assert secrets.missing(environment, tmp_path) == [tmp_path / "kaggle.json"]
    assert secrets.read(environment, tmp_path) == {}
    (tmp_path / "kaggle.json").write_text('{"username": "ann", "key": "tell-nobody"}')
    assert secrets.missing(environment, tmp_path) == []
    assert secrets.read(environment, tmp_path) == {"kaggle-secret": {"username": "ann", "key": "tell-nobody"}}


@pytest.mark.parametrize(
    "text", ['{"key": "tell-nobody"', '["tell-nobody"]', '{"key": {"of": "tell-nobody"}}', "{}", "tell-nobody"]
)
def test_a_file_that_cannot_be_used_is_refused_without_a_word_of_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "kaggle.json").write_text(text)
    with pytest.raises(InvalidDocument, match=r"kaggle\.json: expected a JSON object of names and texts") as caught:
        secrets.read(environments.example("self-service"), tmp_path)
    seen: BaseException | None = caught.value
    while seen is not None:
        assert "tell-nobody" not in repr(seen) + str(seen)
        seen = seen.__cause__


def test_an_environment_without_self_service_has_none(tmp_path: Path) -> None:
    assert secrets.read(environments.small(), tmp_path) == {}
