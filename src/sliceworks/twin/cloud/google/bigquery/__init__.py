"""BigQuery.

dataset     datasets and tables
table_data  rows of tables, and the values of columns
query_job   query jobs and their results
sql         parses and executes a subset of GoogleSQL
"""

from sliceworks.twin.cloud.google.bigquery.dataset import create

__all__ = ["create"]
