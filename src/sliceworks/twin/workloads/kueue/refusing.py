"""How Kueue's webhooks refuse a write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.schemas.field_errors import FieldError
    from sliceworks.twin.admission.context import Admission


def refuse(ctx: Admission, errors: Iterable[FieldError]) -> None:
    """Raise when there are errors, as controller-runtime's webhooks do."""
    found = list(dict.fromkeys(str(error) for error in errors))
    if found:
        text = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
        hook = f"v{ctx.resource.rpartition('/')[2].removesuffix('s')}"
        raise Forbidden(f'admission webhook "{hook}.kb.io" denied the request: {text}')
