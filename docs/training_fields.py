"""The reference of the TrainingJob document."""

from __future__ import annotations

from document_fields import page
from sliceworks.specs import model
from sliceworks.specs import training as types
from sliceworks.specs.training import TrainingSpec

_OPENING = """\
# TrainingJob

Work on slices that goes through a queue. This page is made from the program by `make fix`; [submit a training
job](../how-to/submit-a-training-job.md) shows it at work. A field that is not known is an error that names the closest one, and
`sliceworks train submit --dry-run client -o yaml` shows the JobSet that a document becomes.

```yaml
apiVersion: sliceworks.dev/v1alpha1
kind: TrainingJob
metadata:
  name: first          # at most 26 characters where several hosts work together
  namespace: research  # the context's when left out
  labels: {}           # of the JobSet and of the slices' pods
  annotations: {}      # of the JobSet
spec: {}               # as below
```
"""
_WORDS = {
    "Count": "number, 1 or more",
    "Natural": "number, 0 or more",
    "ExitCode": "number, 1 to 255",
    "Port": "number, 1024 to 65535",
    "Variable": "variable name",
    "Amount": "quantity, such as `500m` or `2Gi`",
    "Folder": "absolute path",
    "Part": "name of letters, digits and dashes",
    "Image": "image",
}


def training() -> str:
    """The page."""
    words = [(getattr(types, name), text) for name, text in _WORDS.items()]
    return page(_OPENING, TrainingSpec, [*words, (model.Name, "name"), (model.Seconds, "duration, such as `90s` or `1h30m`")])
