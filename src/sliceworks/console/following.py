"""The log of one container, line by line as it is written, until nobody looks any more."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, NotFound, SliceworksError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sliceworks.kube.client import Client

LAST_LINES = 500
_AGAIN = 2.0  # seconds before a log that broke off is asked for again


async def lines_of(client: Client, namespace: str, pod: str, container: str) -> AsyncGenerator[list[str], None]:
    """What a container has written lately, then what it writes; lines that came together are given together."""
    rest = b""
    async with aclosing(client.follow_logs(pod, namespace, container=container, tail_lines=LAST_LINES)) as pieces:
        async for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            if lines:
                yield [each.decode(errors="replace") for each in lines]
    if rest:
        yield [rest.decode(errors="replace")]


async def patiently(client: Client, namespace: str, pod: str, container: str) -> AsyncGenerator[list[str], None]:
    """The same from a container that has not started yet, with a word about what is waited for."""
    said = ""
    while True:
        try:
            async with aclosing(lines_of(client, namespace, pod, container)) as found:
                async for lines in found:
                    yield lines
            return
        except NotFound as error:
            # A pod that is gone would be named.
            yield [
                "– the pod is gone –"
                if error.details
                else "– this twin plays pods and runs no programs: start it with --processes –"
            ]
            return
        except ApiError as error:
            if error.message != said:
                said = error.message
                yield [f"– {said} –"]
        except SliceworksError as error:
            yield [f"– {error.message} –"]
        await clock.sleep(_AGAIN)
