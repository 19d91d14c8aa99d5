"""YAML documents: where they and their fields stand, and what is refused."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument

TWO = """\
# a comment
apiVersion: v1
kind: ConfigMap
metadata:
  name: one
data:
  a: "1"
---
---
kind: List
items:
- x: 1
- y: 2
"""


def test_documents_know_their_places() -> None:
    first, second = yamls.load_all(TWO, "a.yaml")
    assert first.data["metadata"] == {"name": "one"}
    assert first.name == "ConfigMap/one"
    assert first.place() == "a.yaml:2"
    assert first.place("data", "a") == "a.yaml:7"
    assert first.place("data", "missing", "deeper") == "a.yaml:6"
    assert second.place("items", 1, "y") == "a.yaml:13"
    assert second.name == "List/?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "f.yaml:2: while parsing a flow sequence: did not find expected ',' or ']'"),
        ("a: 1\n- b", "f.yaml:2: while parsing a block mapping: did not find expected key"),
        ("- a", "f.yaml:1: expected a mapping of fields"),
        ("text", "f.yaml:1: expected a mapping of fields"),
        ("é: 1\nb: \x07", "f.yaml:2: has a character that YAML does not take: U+0007"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3: field 'a' is written twice"),
        ("? [a]\n: 1", "f.yaml:1: a field's name must be plain text"),
        ("a: &x [*x]", "f.yaml:1: is nested more than 100 levels deep"),
        ("a: !!python/none x", "f.yaml:1: could not determine a constructor for the tag 'tag:yaml.org,2002:python/none'"),
    ],
)
def test_what_cannot_be_used_names_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        yamls.load_all(text, "f.yaml")
    assert str(caught.value) == message


def test_deep_nesting_and_exploding_aliases_are_refused() -> None:
    for text in ("a: " + "[" * 5000 + "]" * 5000, "a: " + "{a: " * 300 + "1" + "}" * 300):
        with pytest.raises(InvalidDocument, match="nested"):
            yamls.load_all(text, "f.yaml")
    bomb = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{chr(98 + level)}: &{chr(98 + level)} [{','.join(['*' + chr(97 + level)] * 9)}]\n" for level in range(8)
    )
    with pytest.raises(InvalidDocument, match="unfold"):
        yamls.load_all(bomb, "f.yaml")


def test_only_jsons_types_come_out() -> None:
    (document,) = yamls.load_all("when: 2026-11-15T00:00:00Z\nport: 22:22\n1: one\nsize: 1.5\nyes: true\ncount: 0x10", "f")
    assert document.data == {"when": "2026-11-15T00:00:00Z", "port": "22:22", "1": "one", "size": 1.5, "yes": True, "count": 16}


def test_merge_keys_work() -> None:
    (document,) = yamls.load_all("base: &b {x: 1, y: 2}\nmore:\n  <<: *b\n  y: 3", "f")
    assert document.data["more"] == {"x": 1, "y": 3}


def test_what_is_dumped_reads_back() -> None:
    value = {"kind": "ConfigMap", "data": {"script": "a\nb\n", "on": "yes", "n": "1"}, "list": [1, {"a": None}]}
    text = yamls.dump(value)
    assert "script: |" in text
    assert yamls.load_all(text, "f")[0].data == value
    assert [document.data for document in yamls.load_all(yamls.dump_all([value, {"b": 1}]), "f")] == [value, {"b": 1}]


def test_a_folder_is_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text("b: 2")
    (tmp_path / "a.yaml").write_text("a: 1")
    (tmp_path / "notes.txt").write_text("nothing")
    assert [document.data for document in yamls.load_path(tmp_path)] == [{"a": 1}, {"b": 2}]
    with pytest.raises(InvalidDocument, match="no such file"):
        yamls.load_path(tmp_path / "c.yaml")
    (tmp_path / "d.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidDocument, match="UTF-8"):
        yamls.load_path(tmp_path / "d.yaml")


@pytest.mark.parametrize(
    ("piped", "told"),
    [(b"", "-: has 0 documents, one Thing is wanted"), (b"\xff", "-: is not UTF-8 text"), (b"- a", "-:1: expected")],
)
def test_a_document_may_be_piped_in(piped: bytes, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def pipe(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))

    pipe(b"kind: Thing")
    assert yamls.load_one(Path("-"), "Thing").data == {"kind": "Thing"}
    pipe(piped)
    with pytest.raises(InvalidDocument) as caught:
        yamls.load_one(Path("-"), "Thing")
    assert caught.value.message.startswith(told)
