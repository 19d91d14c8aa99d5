"""What the controller of graphs counts. Names are kro's where they mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.base.metrics import Registry


class Measures:
    """The numbers of one controller."""

    def __init__(self, registry: Registry) -> None:
        self.reconciles = registry.counter("instance_reconcile_total", "Looks at instances.", "gvr")
        self.reconcile_errors = registry.counter("instance_reconcile_errors_total", "Looks at instances that failed.", "gvr")
        self.reconcile_seconds = registry.histogram(
            "instance_reconcile_duration_seconds", "How long looks at instances take.", "gvr"
        )
        self.builds = registry.counter("rgd_graph_build_total", "Definitions compiled.", "name")
        self.build_errors = registry.counter("rgd_graph_build_errors_total", "Definitions that did not compile.", "name")
        self.build_seconds = registry.histogram("rgd_graph_build_duration_seconds", "How long compiling takes.", "name")
        self.graph_transitions = registry.counter(
            "rgd_state_transitions_total", "Changes of the state of definitions.", "name", "from", "to"
        )
        self.graph_deletions = registry.counter("rgd_deletions_total", "Definitions deleted.", "name")
        self.revisions_issued = registry.counter("rgd_graph_revision_issue_total", "Revisions issued.", "reason")
        self.revisions_collected = registry.counter("rgd_graph_revision_gc_deleted_total", "Old revisions deleted.")
        self._transitions = registry.counter(
            "instance_state_transitions_total", "Changes of the state of instances.", "gvr", "from_state", "to_state"
        )

    def transition(self, kind: str, old: str, new: str) -> None:
        """An instance has another state."""
        self._transitions.add(kind, old, new)
