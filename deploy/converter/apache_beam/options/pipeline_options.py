"""Pipeline options: none are supported."""

from __future__ import annotations


class SetupOptions:
    """Options for the setup of workers."""

    save_main_session = False


class PipelineOptions:
    """Options of one pipeline; rejects any flag."""

    def __init__(self, flags: list[str] | None = None) -> None:
        if flags:
            raise SystemExit(f"unknown arguments: {' '.join(flags)}")

    def view_as(self, kind: type[SetupOptions]) -> SetupOptions:
        """Return the options of this kind."""
        return kind()
