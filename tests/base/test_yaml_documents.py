"""YAML documents: positions of fields, rejected input, and round trips."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
import yaml

from sliceworks.base import yaml_documents, yaml_loader
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


def test_document_fields_have_positions() -> None:
    first, second = yaml_documents.load_all(TWO, "a.yaml")
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
        ("é: 1\nb: \x07", "f.yaml:2: character U+0007 is not allowed in YAML"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3: duplicate field 'a'"),
        ("? [a]\n: 1", "f.yaml:1: a field name must be a scalar"),
        ("a: &x [*x]", "f.yaml:1: anchor 'x' contains itself"),
        ("a: !!python/none x", "f.yaml:1: could not determine a constructor for the tag 'tag:yaml.org,2002:python/none'"),
    ],
)
def test_invalid_documents_name_the_line(text: str, message: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        yaml_documents.load_all(text, "f.yaml")
    assert str(caught.value) == message


def test_tabs_have_a_hint() -> None:
    with pytest.raises(InvalidDocument, match="cannot start any token") as caught:
        yaml_documents.load_all("a:\n\tb: 1", "f.yaml")
    assert caught.value.hint == "indent with spaces: YAML does not allow tabs"
    with pytest.raises(InvalidDocument) as caught:
        yaml_documents.load_all("a: [", "f.yaml")
    assert caught.value.hint == ""


def test_deep_nesting_and_exponential_aliases_are_rejected() -> None:
    for text in (
        "a: " + "[" * 100_000,
        "[" * 100_000,
        "- " * 50_000,
        "a: " + "[" * 5000 + "]" * 5000,
        "a: " + "{a: " * 300 + "1" + "}" * 300,
    ):
        with pytest.raises(InvalidDocument, match="nested"):
            yaml_documents.load_all(text, "f.yaml")
    bomb = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{chr(98 + level)}: &{chr(98 + level)} [{','.join(['*' + chr(97 + level)] * 9)}]\n" for level in range(8)
    )
    with pytest.raises(InvalidDocument, match="aliases expand"):
        yaml_documents.load_all(bomb, "f.yaml")


@pytest.mark.parametrize("value", ['"{}"', "[{}, b]", "{{c: {}}}"])
def test_aliases_of_large_scalars_are_rejected(value: str) -> None:
    """Few nodes, but gigabytes of text if it is written again."""
    text = "a: &a " + value.format("x" * 100_000) + "\nb: [" + ", ".join(["*a"] * 1000) + "]"
    with pytest.raises(InvalidDocument, match=r"aliases expand to more than [0-9,]+ characters"):
        yaml_documents.load_all(text, "f.yaml")
    assert yaml_documents.load_all("a: &a " + value.format("x") + "\nb: [*a, *a]", "f.yaml")[0].data["b"][0]


def test_limits_are_exact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    yaml_documents.load_all("a: " + "[" * 99 + "]" * 99, "f.yaml")
    with pytest.raises(InvalidDocument, match=r"^f.yaml:1: nested more than 100 levels deep$"):
        yaml_documents.load_all("a: " + "[" * 100 + "]" * 100, "f.yaml")
    with pytest.raises(InvalidDocument, match="nested more than 100 levels deep"):
        yaml_documents.load_all("a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 45 + "*a" + "]" * 45, "f.yaml")
    monkeypatch.setattr(yaml_documents, "LIMITS", yaml_loader.Limits(size=20, depth=10, nodes=6))
    assert yaml_documents.load_all("a: [1, 2, 3]", "f.yaml")[0].data == {"a": [1, 2, 3]}
    with pytest.raises(InvalidDocument, match=r"^f.yaml:1: more than 6 nodes$"):
        yaml_documents.load_all("a: [1, 2, 3, 4]", "f.yaml")
    file = tmp_path / "f.yaml"
    file.write_text("a: 1\nb: 12345678901234")
    with pytest.raises(InvalidDocument) as caught:
        yaml_documents.load_path(file)
    assert caught.value.message == f"{file}: larger than 20 bytes"


def test_document_of_100_000_fields_is_composed_without_pyyaml_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML's composer takes most of the time of a large document: it resolves the tag of each scalar in Python."""
    monkeypatch.setattr(yaml, "compose_all", None)
    text = "kind: A\nspec:\n" + "".join(f"  field{number}: {number}\n" for number in range(100_000))
    (document,) = yaml_documents.load_all(text, "f.yaml")
    assert document.data["spec"]["field99999"] == 99_999
    assert document.place("spec", "field99999") == "f.yaml:100002"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int x", "f.yaml:1: 'x' is not a valid int"),
        ("a: !!bool maybe", "f.yaml:1: 'maybe' is not a valid bool"),
        ("a: !!set {b}", "f.yaml:1: could not determine a constructor for the tag 'tag:yaml.org,2002:set'"),
        ("a: *b", "f.yaml:1: found undefined alias 'b'"),
        ("a: {<<: 1}", "f.yaml:1: expected a mapping or list of mappings for merging, found a scalar"),
        ("a: " + "9" * 5000, f"f.yaml:1: '{'9' * 40}' is not a valid int"),
    ],
)
def test_invalid_values_name_the_line(text: str, message: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        yaml_documents.load_all(text, "f.yaml")
    assert str(caught.value) == message


def test_yaml_is_parsed_in_one_module() -> None:
    """PyYAML's loaders end the process on deep nesting, so all YAML goes through `base/yaml_loader.py`."""
    source = Path(yaml_documents.__file__).parents[1]
    allowed = {"base/yaml_loader.py"}
    dumpers = {"base/yaml_documents.py", "twin/apiserver/yaml_codec.py"}
    parsers = re.compile(r"\byaml\.(\w*load\w*|compose\w*|parse|scan|\w*Loader|\w*Parser|composer)\b")
    imports = re.compile(r"^\s*(import|from) (yaml|ruamel|_yaml)\b", re.MULTILINE)
    for file in source.rglob("*.py"):
        name, text = file.relative_to(source).as_posix(), file.read_text()
        if name not in allowed:
            assert not parsers.findall(text), name
        if name not in allowed | dumpers:
            assert not imports.search(text), name


def test_values_have_json_types() -> None:
    (document,) = yaml_documents.load_all("when: 2026-11-15T00:00:00Z\nport: 22:22\n1: one\nsize: 1.5\nyes: true\ncount: 0x10", "f")
    assert document.data == {"when": "2026-11-15T00:00:00Z", "port": "22:22", "1": "one", "size": 1.5, "yes": True, "count": 16}


def test_merge_keys_are_supported() -> None:
    (document,) = yaml_documents.load_all("base: &b {x: 1, y: 2}\nmore:\n  <<: *b\n  y: 3", "f")
    assert document.data["more"] == {"x": 1, "y": 3}


def test_dump_round_trips() -> None:
    value = {"kind": "ConfigMap", "data": {"script": "a\nb\n", "on": "yes", "n": "1"}, "list": [1, {"a": None}]}
    text = yaml_documents.dump(value)
    assert "script: |" in text
    assert yaml_documents.load_all(text, "f")[0].data == value
    assert [document.data for document in yaml_documents.load_all(yaml_documents.dump_all([value, {"b": 1}]), "f")] == [
        value,
        {"b": 1},
    ]


def test_directory_is_read_in_order_of_file_names(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text("b: 2")
    (tmp_path / "a.yaml").write_text("a: 1")
    (tmp_path / "notes.txt").write_text("nothing")
    assert [document.data for document in yaml_documents.load_path(tmp_path)] == [{"a": 1}, {"b": 2}]
    with pytest.raises(InvalidDocument, match="no such file"):
        yaml_documents.load_path(tmp_path / "c.yaml")
    (tmp_path / "d.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidDocument, match="UTF-8"):
        yaml_documents.load_path(tmp_path / "d.yaml")


@pytest.mark.parametrize(
    ("stdin", "message"),
    [(b"", "-: expected one Thing, found 0 documents"), (b"\xff", "-: not valid UTF-8"), (b"- a", "-:1: expected")],
)
def test_document_is_read_from_stdin(stdin: bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def pipe(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))

    pipe(b"kind: Thing")
    assert yaml_documents.load_one(Path("-"), "Thing").data == {"kind": "Thing"}
    pipe(stdin)
    with pytest.raises(InvalidDocument) as caught:
        yaml_documents.load_one(Path("-"), "Thing")
    assert caught.value.message.startswith(message)
