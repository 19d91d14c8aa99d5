"""`sliceworks train`: submit training jobs to a queue, see how they stand, read their logs, start them again, and cancel them.

Each command lies in a module of its own, and is imported when it is called.
"""

from __future__ import annotations

import click

from sliceworks.cli.groups import Entry, LazyGroup

ENTRIES = {
    "submit": Entry("sliceworks.cli.train_submit:submit", "Check a job whole, show what it takes, and put it into its queue."),
    "list": Entry("sliceworks.cli.train_list:list_", "List training jobs: what runs, what waits, what has ended."),
    "show": Entry("sliceworks.cli.train_show:show_", "Show one job: its hosts, its timeline, its events."),
    "why": Entry("sliceworks.cli.train_why:why", "Say why a job waits, starts slowly or has failed."),
    "forecast": Entry("sliceworks.cli.train_forecast:forecast", "Tell when jobs will start and end, and what would change that."),
    "logs": Entry("sliceworks.cli.train_logs:logs", "Print what the hosts of a job have written."),
    "wait": Entry("sliceworks.cli.train_wait:wait", "Wait until a job runs or has finished."),
    "restart": Entry("sliceworks.cli.train_restart:restart", "Begin a job again, in its place or from its queue."),
    "cancel": Entry("sliceworks.cli.train_cancel:cancel", "End a job and remove it, with its pods."),
    "top": Entry("sliceworks.cli.train_top:top", "Show the chips in use by team, queue and type."),
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def train() -> None:
    """Submit training jobs, and see how they stand."""
