"""Credentials of model registries: read from files next to the document, and never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import environments

from sliceworks.base.errors import InvalidDocument
from sliceworks.infra.cluster import composition

if TYPE_CHECKING:
    from pathlib import Path


def test_file_is_read_and_missing_file_is_reported(tmp_path: Path) -> None:
    environment = environments.example("self-service")
    assert composition.missing_secret_files(environment, tmp_path) == [tmp_path / "kaggle.json"]
    assert composition.read_secrets(environment, tmp_path) == {}
    (tmp_path / "kaggle.json").write_text('{"username": "ann", "key": "registry-token"}')
    assert composition.missing_secret_files(environment, tmp_path) == []
    assert composition.read_secrets(environment, tmp_path) == {"kaggle-secret": {"username": "ann", "key": "registry-token"}}


@pytest.mark.parametrize(
    "text", ['{"key": "registry-token"', '["registry-token"]', '{"key": {"of": "registry-token"}}', "{}", "registry-token"]
)
def test_invalid_file_is_an_error_without_its_content(text: str, tmp_path: Path) -> None:
    (tmp_path / "kaggle.json").write_text(text)
    with pytest.raises(InvalidDocument, match=r"kaggle\.json: expected a JSON object with string values") as caught:
        composition.read_secrets(environments.example("self-service"), tmp_path)
    seen: BaseException | None = caught.value
    while seen is not None:
        assert "registry-token" not in repr(seen) + str(seen)
        seen = seen.__cause__


def test_environment_without_self_service_has_no_credentials(tmp_path: Path) -> None:
    assert composition.read_secrets(environments.small(), tmp_path) == {}
