"""Liveness, readiness and startup probes: exec, HTTP and TCP on loopback."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.nodes.runtime.process import NO_FILES, kill_group, spawn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.nodes.runtime.envvars import Command

Obj = dict[str, Any]
_LOOPBACK = "127.0.0.1"


async def run_probe(rule: Obj, check: Callable[[], Awaitable[bool]], report: Callable[[bool], Awaitable[None]]) -> None:
    """Check periodically and report when the success or failure threshold is reached. Runs until cancelled."""
    thresholds = {True: int(rule.get("successThreshold") or 1), False: int(rule.get("failureThreshold") or 3)}
    await clock.sleep(float(rule.get("initialDelaySeconds") or 0))
    last, count = True, 0
    while True:
        success = await _check_with_timeout(check, float(rule.get("timeoutSeconds") or 1))
        count = count + 1 if success is last else 1
        last = success
        if count == thresholds[success]:
            await report(success)
        await clock.sleep(float(rule.get("periodSeconds") or 10))


async def _check_with_timeout(check: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await check()
    except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
        return False


def checker(rule: Obj, container: Obj, address: str, command: Command) -> Callable[[], Awaitable[bool]]:
    """Return the check of a probe."""
    if "exec" in rule:
        arguments = tuple(rule["exec"].get("command") or ())
        return lambda: _run(arguments, command)
    if "httpGet" in rule:
        http_get: Obj = rule["httpGet"]
        return lambda: _get(http_get, _port(http_get.get("port"), container), str(http_get.get("host") or address))
    action: Obj = rule.get("tcpSocket") or rule.get("grpc") or {}
    return lambda: _connect(_port(action.get("port"), container), address)


def _port(port: int | str | None, container: Obj) -> int:
    if isinstance(port, str) and not port.isdigit():
        return next((int(item["containerPort"]) for item in container.get("ports") or () if item.get("name") == port), 0)
    return int(port or 0)


async def _run(arguments: tuple[str, ...], command: Command) -> bool:
    process = await spawn(arguments, command.view, command.environment, NO_FILES)
    try:
        return await process.wait() == 0
    finally:
        await kill_group(process)


async def _open(port: int, address: str, tls: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the address of the pod, or to 127.0.0.1: programs listen on either."""
    try:
        return await asyncio.open_connection(address, port, ssl=tls)
    except OSError:
        return await asyncio.open_connection(_LOOPBACK, port, ssl=tls)


async def _connect(port: int, address: str) -> bool:
    _, writer = await _open(port, address)
    writer.close()
    return True


async def _get(action: Obj, port: int, address: str) -> bool:
    reader, writer = await _open(port, address, _insecure_context() if action.get("scheme") == "HTTPS" else None)
    try:
        headers = {"Host": f"{address}:{port}", "User-Agent": "kube-probe/1.35", "Connection": "close"}
        headers |= {item["name"]: item["value"] for item in action.get("httpHeaders") or ()}
        lines = [f"GET {action.get('path') or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        status = (await reader.readline()).split(b" ")
        return len(status) > 1 and 200 <= int(status[1]) < 400
    finally:
        writer.close()


def _insecure_context() -> ssl.SSLContext:
    """A context without certificate verification: the kubelet does not verify certificates of probes."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
