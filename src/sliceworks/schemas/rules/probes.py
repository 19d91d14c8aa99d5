"""Probes and lifecycle hooks: one handler each, with sensible numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required
from sliceworks.schemas.rules.texts import Errors, named, none_negative, port_or_name

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")


def probe_errors(out: Errors, container: Json, path: str, grace: int | None) -> None:
    """The three probes of a container."""
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(kind)
        if probe is None:
            continue
        place = f"{path}.{kind}"
        _handler(out, probe, place, _PROBE_HANDLERS, grace)
        none_negative(
            out, probe, place, "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"
        )
        seconds = probe.get("terminationGracePeriodSeconds")
        if seconds is not None and seconds <= 0:
            out.append(invalid(f"{place}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
        if kind == "readinessProbe":
            if seconds is not None:
                out.append(invalid(f"{place}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes"))
        elif probe.get("successThreshold", 1) != 1:
            out.append(invalid(f"{place}.successThreshold", probe["successThreshold"], "must be 1"))


def lifecycle_errors(out: Errors, lifecycle: Json, path: str, grace: int | None) -> None:
    for hook in ("postStart", "preStop"):
        if (handler := lifecycle.get(hook)) is not None:
            _handler(out, handler, f"{path}.{hook}", _HOOK_HANDLERS, grace)


def _handler(out: Errors, holder: Json, path: str, kinds: tuple[str, ...], grace: int | None) -> None:
    found = [kind for kind in kinds if holder.get(kind) is not None]
    if not found:
        out.append(required(path, "must specify a handler type"))
        return
    first, *others = found
    _action(out, first, holder[first], f"{path}.{first}", grace)
    for kind in others:
        out.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))


def _action(out: Errors, kind: str, action: Json, path: str, grace: int | None) -> None:
    if kind == "exec":
        if not action.get("command"):
            out.append(required(f"{path}.command"))
    elif kind == "sleep":
        seconds = action.get("seconds") or 0
        if grace is not None and not 0 <= seconds <= grace:
            out.append(invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"))
    else:
        if kind == "httpGet":
            _http(out, action, path)
        port_or_name(out, action.get("port", 0), f"{path}.port")


def _http(out: Errors, action: Json, path: str) -> None:
    if not action.get("path"):
        out.append(required(f"{path}.path"))
    scheme = action.get("scheme") or ""
    if scheme not in ("HTTP", "HTTPS"):
        out.append(not_supported(f"{path}.scheme", scheme, ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        named(out, header.get("name") or "", f"{path}.httpHeaders", names.header_name_errors)
