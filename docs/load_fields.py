"""The reference of the LoadTest document, and of what a run leaves."""

from __future__ import annotations

from document_fields import page
from sliceworks.loadtest.rows import WORDS, Failure
from sliceworks.specs import load_test as types
from sliceworks.specs import model
from sliceworks.specs.objectives import MEASURES

_OPENING = """\
# LoadTest

What is asked of a model server, how often, for how long, and what would be good enough. This page is made from the program by `make
fix`; [load-test a model](../how-to/load-test-a-model.md) shows it at work, and [how load tests
measure](../explanation/load-tests.md) why it is built so. A field that is not known is an error that names the closest one.

```yaml
apiVersion: sliceworks.dev/v1alpha1
kind: LoadTest
metadata: {name: chat}
spec: {}    # as below
```
"""
_RUN = """\
## What a run leaves

A folder with `run.json`, everything that the report says; `requests.parquet`, a row for each request; `pieces.parquet`, a row for
each piece of an answer; and `senders.log`. Moments are seconds from the beginning of the run. What did not happen is NULL. While a
run goes on, and where it broke off, there are rows of its senders and `note.json` in place of these: `sliceworks load recover`
makes the one from the other.

| column | |
| --- | --- |
| `number` | of the schedule; requests of users have numbers from 2^40 on |
| `intended`, `sent`, `first_byte`, `first_token`, `ended` | when it should have left, when it left, and what came back when |
| `tokens_in`, `tokens_out` | as the server reports them, or counted with the tokenizer of `tokens` |
| `counted` | whether the answer's tokens were counted and not reported; only with a tokenizer |
| `pieces`, `bytes_out`, `bytes_in` | how many pieces and bytes |
| `prompt`, `turn`, `phase`, `worker` | which prompt, which turn of a conversation, which phase of the test, which sender |
| `status`, `failure` | the HTTP status, and what went wrong |

In `pieces.parquet`, `request` and `piece` say which piece of which request it is, `came` how many seconds after the request left it
was there, and `gap` how many after the piece before.
"""
_WORDS = {
    "Positive": "number, 1 or more",
    "Natural": "number, 0 or more",
    "PerSecond": "number per second",
    "Lasting": "duration, such as `90s` or `1h30m`",
    "Objective": "objective",
    "Weight": "share, 0 to 1",
}


def load_test() -> str:
    """The page."""
    words = [(getattr(types, name), text) for name, text in _WORDS.items()]
    fields = page(_OPENING, types.LoadTestSpec, [*words, (model.Name, "name"), (model.Seconds, "duration, such as `90s`")])
    return "\n".join([fields, _objectives(), _RUN, _failures()])


def _objectives() -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in MEASURES.items())
    intro = (
        "`MEASURE pNN < TIME`, or `mean` or `max` in place of a percentile; `errors < SHARE`. Times count from the intended moment."
    )
    return f"## Objectives\n\n{intro}\n\n| measure | |\n| --- | --- |\n{rows}"


def _failures() -> str:
    rows = "".join(f"| `{each.name.lower().replace('_', '-')}` | {WORDS[each]} |\n" for each in Failure if each)
    return f"| failure | |\n| --- | --- |\n{rows}"
