"""`twin expose`: arguments that are rejected before a twin is asked."""

from __future__ import annotations

import pytest

from sliceworks.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hook"], "'hook': expected NAMESPACE/SERVICE=HOST:PORT"),
        (["default/hook"], "'default/hook': expected NAMESPACE/SERVICE=HOST:PORT"),
        (["default/hook=127.0.0.1:1", "--remove"], "'default/hook=127.0.0.1:1': expected NAMESPACE/SERVICE"),
        (["--remove"], "--remove: requires NAMESPACE/SERVICE"),
    ],
)
def test_bad_arguments_are_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "expose", *arguments]) == 2
    assert message in capsys.readouterr().err
