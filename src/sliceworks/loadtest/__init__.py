"""Load tests: an arrival process turned into requests, a request log, statistics and a report.

load_target                  defaults that a model service gives a load test
load_plan, prompts           the schedule of all requests, and their prompts
runner                       runs a test with local worker processes
generator                    the load generator of one process
cluster                      workers as pods of a cluster
request_log, request_table   rows of the workers while they run, and the tables of a run
request_texts                prompts and responses of a run, if the test keeps them
token_count                  tokens that the server did not report
run_statistics, percentiles  summary, distributions and time series of a run
results, run_folder          run.json, and the folder of a run
rate_search                  the highest rate that meets the objectives
comparison                   the difference of two runs
report                       HTML, Markdown or JSON
bigquery_export              requests of a run, exported through Pub/Sub to BigQuery
"""

from __future__ import annotations

from sliceworks.base import imports


def check_installed() -> None:
    """Raise an error with an install hint if the extra `load` is missing."""
    imports.require_extras({"load tests need": "load"})
