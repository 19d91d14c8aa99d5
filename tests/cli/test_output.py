"""Output formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.cli.output import Report, print_report

if TYPE_CHECKING:
    import pytest

REPORT = Report(("name", "age"), [("a", "5s"), ("b", None)], [{"name": "a"}, {"name": "b", "n": None}], ["thing/a", "thing/b"])


def test_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for form in ("table", "json", "yaml", "name"):
        print_report(REPORT, form)
        shown[form] = capsys.readouterr().out
    assert shown["table"] == "NAME   AGE\na      5s\nb      <none>\n"
    assert shown["json"] == '[\n  {\n    "name": "a"\n  },\n  {\n    "name": "b",\n    "n": null\n  }\n]\n'
    assert shown["yaml"] == "- name: a\n- name: b\n  n: null\n"
    assert shown["name"] == "thing/a\nthing/b\n"
