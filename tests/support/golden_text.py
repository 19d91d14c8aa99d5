"""Expected output of commands in files. `SLICEWORKS_RECORD=1` rewrites a file and fails the test, so that a person reviews the
diff.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "cli" / "goldens"


def check(name: str, text: str) -> None:
    """Compare a string with the recorded one of this name."""
    path = FOLDER / f"{name}.txt"
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != kept and os.environ.get("SLICEWORKS_RECORD") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        raise AssertionError(f"{path.name} was written anew: read the difference")
    assert text == kept
