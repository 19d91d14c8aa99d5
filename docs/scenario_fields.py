"""The reference of the Scenario document."""

from __future__ import annotations

from document_fields import page
from sliceworks.specs import clouds, expectations, model, scenario

_OPENING = """\
# Scenario

What happens when in a rehearsal, and what is expected of it. This page is made from the program by `make fix`; [play a
scenario](../how-to/play-a-scenario.md) shows it at work. A field that is not known is an error that names the closest one.

```yaml
apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: day}
spec: {}    # as below
```
"""


def scenarios() -> str:
    """The page."""
    words = [
        (scenario.Count, "number, 1 or more"),
        (clouds.Count, "number, 0 or more"),
        (expectations.Natural, "number, 0 or more"),
        (expectations.Amount, "number, 0 or more"),
        (model.Name, "name"),
        (model.Seconds, "duration, such as `90s`"),
        (model.Moment, "time, such as `2026-11-16T08:00:00Z`"),
    ]
    return page(_OPENING, scenario.ScenarioSpec, words)
