"""A session with a Google API: builds requests, adds credentials, reads answers, and tries reads again where that is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import CloudError, CloudUnavailable, Unauthenticated, Unreachable
from sliceworks.cloud.credentials import Anonymous
from sliceworks.cloud.refusals import refusal
from sliceworks.cloud.retrying import Retry
from sliceworks.cloud.transport import Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cloud.credentials import Credentials
    from sliceworks.cloud.transport import Transport

Object = dict[str, Any]
_JSON = "application/json"


class Session:
    """One endpoint, who asks there, and the policy for another try. `endpoint` has no path; a transport may stand in for it."""

    def __init__(
        self,
        endpoint: str = "",
        credentials: Credentials | None = None,
        *,
        transport: Transport | None = None,
        retry: Retry | None = None,
        user_agent: str = "sliceworks",
    ) -> None:
        self._transport = transport or _http(endpoint)
        self._credentials = credentials or Anonymous()
        self.retry = retry or Retry()
        self._common = {"accept": _JSON, "user-agent": user_agent}

    async def call(self, method: str, path: str, body: Object | None = None, query: Mapping[str, str] | None = None) -> Object:
        """Send a request and decode its answer; a CloudError says what was refused."""
        target = f"{path}?{urlencode(query)}" if query else path
        data = orjson.dumps(body) if body is not None else b""
        return _decoded(await self.raw(method, target, data, {"content-type": _JSON} if data else {}), f"{method} {path}")

    async def raw(self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Response:
        """The same for contents that are no messages."""
        request, failures = Request(method, target, {**self._common, **(headers or {})}, body), 0
        while True:
            try:
                return _accepted(await self._exchange(request), f"{method} {target.partition('?')[0]}")
            except (Unreachable, CloudError) as error:
                failures += 1
                if method != "GET" or failures >= self.retry.attempts or not _passing(error):
                    raise
                await clock.sleep(self.retry.delay(failures, getattr(error, "retry_after", None)))

    async def upload(self, path: str, content: bytes, query: Mapping[str, str], content_type: str) -> Object:
        """Send a content that is no message, once; the answer says what became of it."""
        request = Request("POST", f"{path}?{urlencode(query)}", {**self._common, "content-type": content_type}, content)
        return _decoded(_accepted(await self._send(request), f"POST {path}"), f"POST {path}")

    async def _exchange(self, request: Request) -> Response:
        response = await self._send(request)
        if response.status == 401:
            # The token may have been withdrawn before its time: one fresh one is worth a try.
            self._credentials.refused()
            response = await self._send(request)
        return response

    async def _send(self, request: Request) -> Response:
        headers = {**request.headers, **await self._credentials.headers()}
        return await self._transport.send(Request(request.method, request.target, headers, request.body))

    async def close(self) -> None:
        """Let go of connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _http(endpoint: str) -> Transport:
    from sliceworks.cloud.http import HttpTransport

    return HttpTransport(endpoint)


def _accepted(response: Response, what: str) -> Response:
    if response.status >= 400:
        raise refusal(response, what)
    return response


def _decoded(response: Response, what: str) -> Object:
    try:
        answer = orjson.loads(response.body) if response.body else {}
    except orjson.JSONDecodeError as error:
        raise Unreachable(f"the answer to {what} is no JSON: is this a Google API?") from error
    if not isinstance(answer, dict):
        raise Unreachable(f"the answer to {what} is no object: is this a Google API?")
    return answer


def _passing(error: Exception) -> bool:
    """Whether a read may go well a moment later."""
    if isinstance(error, Unreachable | CloudUnavailable):
        return True
    return isinstance(error, CloudError) and error.code == 429 and not isinstance(error, Unauthenticated)
