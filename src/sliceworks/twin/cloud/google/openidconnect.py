"""OpenID Connect: who the caller of a token is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.names import numeric_id
from sliceworks.twin.cloud.core.routes import Route
from sliceworks.twin.cloud.core.service import RestService

if TYPE_CHECKING:
    from sliceworks.twin.cloud.core.routes import Call
    from sliceworks.twin.cloud.core.service import ServiceContext


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    return [RestService("openidconnect", "v1", [Route("GET", "userinfo", "userinfo.get", _get_user, "")])]


def _get_user(call: Call) -> dict[str, Any]:
    return {"sub": numeric_id(call.caller), "email": call.caller, "email_verified": True}
