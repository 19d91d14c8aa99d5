"""`$(NAME)` in commands, arguments and variables, as Kubernetes expands it: `$$` is a dollar, unknown names stay as they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """A text with its references to variables filled in."""

    def value(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return variables.get(found[2], found[0])

    return _REFERENCE.sub(value, text) if "$" in text else text
