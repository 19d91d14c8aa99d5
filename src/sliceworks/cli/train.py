"""`sliceworks train`: the command group; each command is imported when it is called."""

from __future__ import annotations

import click

from sliceworks.cli.groups import Entry, LazyGroup

ENTRIES = {
    "submit": Entry(
        "sliceworks.cli.train_submit:submit", "Validate a job, show its resources and cost, and submit it to its queue."
    ),
    "list": Entry("sliceworks.cli.train_list:list_", "List training jobs: running, pending and finished."),
    "show": Entry("sliceworks.cli.train_show:show_", "Show one job: hosts, timeline and events."),
    "why": Entry("sliceworks.cli.train_show:why", "Explain why a job is pending, slow to start, or failed."),
    "forecast": Entry("sliceworks.cli.train_forecast:forecast", "Forecast when jobs start and end."),
    "logs": Entry("sliceworks.cli.train_logs:logs", "Print the logs of a job's hosts."),
    "wait": Entry("sliceworks.cli.train_lifecycle:wait", "Wait until a job is running or finished."),
    "restart": Entry("sliceworks.cli.train_lifecycle:restart", "Restart a job, in place or from its queue."),
    "cancel": Entry("sliceworks.cli.train_lifecycle:cancel", "Cancel a job: delete it with its pods."),
    "top": Entry("sliceworks.cli.train_list:top", "Show the chips in use by team, queue and type."),
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def train() -> None:
    """Submit, inspect and manage training jobs."""
