"""The CEL engine is loaded with the first rule, so definitions without rules do not pay for it."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from sliceworks.cel.rules import compile_rules, evaluate_rules
from sliceworks.schemas import build

plain = build({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}})
assert not compile_rules(plain, "s") and not evaluate_rules(plain, {"spec": {"a": 1}})
print(sorted(name for name in sys.modules if name.startswith(("cel_expr_python", "google.protobuf"))))
ruled = build({"type": "object", "properties": {"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}}})
assert evaluate_rules(ruled, {"a": 1})
print("cel_expr_python.cel" in sys.modules)
"""


def test_engine_is_loaded_at_the_first_rule() -> None:
    shown = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert shown.stdout.split("\n")[:2] == ["[]", "True"]
