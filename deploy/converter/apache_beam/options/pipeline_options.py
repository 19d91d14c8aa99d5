"""Options of a pipeline: there are none."""

from __future__ import annotations


class SetupOptions:
    """How workers are set up."""

    save_main_session = False


class PipelineOptions:
    """Of one pipeline."""

    def __init__(self, flags: list[str] | None = None) -> None:
        if flags:
            raise SystemExit(f"unknown arguments: {' '.join(flags)}")

    def view_as(self, kind: type[SetupOptions]) -> SetupOptions:
        """The part of them that is asked for."""
        return kind()
