"""IAM Service Account Credentials: access tokens of service accounts, with which callers act as them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.core.authorization import AccessTokens
from sliceworks.twin.cloud.core.exceptions import invalid_argument
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService

if TYPE_CHECKING:
    from sliceworks.twin.cloud.core.service import ServiceContext

Obj = dict[str, Any]
_DEFAULT_SECONDS, _MAX_SECONDS = 3600, 43200


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    tokens = AccessTokens(context.store)

    def generate(call: Call) -> Obj:
        seconds = _parse_lifetime(call.body.get("lifetime"))
        token, until = tokens.issue(call.params["account"], seconds)
        return {"accessToken": token, "expireTime": until}

    path, permission = "projects/{project}/serviceAccounts/{account}:generateAccessToken", "iam.serviceAccounts.getAccessToken"
    route = Route("POST", path, "serviceAccounts.generateAccessToken", generate, permission, "GenerateAccessTokenRequest")
    return [RestService("iamcredentials", "v1", [route])]


def _parse_lifetime(value: Any) -> float:
    """The seconds of a duration such as `600s`."""
    if value is None:
        return _DEFAULT_SECONDS
    number = str(value).removesuffix("s")
    if not number.isdigit() or not 0 < int(number) <= _MAX_SECONDS:
        raise invalid_argument("Request contains an invalid argument.")
    return float(number)
