"""Models of Sax, published, changed and taken back through the admin port, as the Sax proxy does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from sliceworks.base.http.refusals import malformed
from sliceworks.serving.gateway.peek import parse

if TYPE_CHECKING:
    from sliceworks.base.http.messages import Request
    from sliceworks.serving.gateway.sax import Saxes

PUBLISHING = frozenset({"/publish", "/update", "/unpublish"})
_FIELDS = {"model_id": str, "model_path": str, "checkpoint": str, "replicas": int}


async def publishing(saxes: Saxes, request: Request) -> dict[str, Any]:
    """Do it, and say what was done."""
    if request.path == "/unpublish":
        model = parse_qs(request.query).get("model_id", [""])[0] or (parse(request.body).get("model_id") if request.body else "")
        if not isinstance(model, str) or not model:
            raise malformed("say which model: model_id is missing", param="model_id")
        await saxes.call(lambda client: client.unpublish(model))
        return {"model": model}
    data = parse(request.body)
    for name, kind in _FIELDS.items():
        if not isinstance(data.get(name), kind) or isinstance(data.get(name), bool):
            raise malformed(f"{name} is missing, or is no {'text' if kind is str else 'whole number'}", param=name)
    given = [data[name] for name in _FIELDS]
    if request.path == "/publish":
        await saxes.call(lambda client: client.publish(*given))
    else:
        await saxes.call(lambda client: client.update(*given))
    return {"model": given[0], "path": given[1], "checkpoint": given[2], "replicas": given[3]}
