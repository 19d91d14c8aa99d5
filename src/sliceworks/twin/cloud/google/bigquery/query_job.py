"""Query jobs of BigQuery and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.cloud.core.collection import paginate
from sliceworks.twin.cloud.core.document_store import Document, Table, require
from sliceworks.twin.cloud.core.exceptions import GoogleError, already_exists, invalid_argument
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.google.bigquery import sql
from sliceworks.twin.cloud.google.bigquery.sql import execute
from sliceworks.twin.cloud.google.bigquery.table_data import columns, paginate_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.google.bigquery.table_data import TableRows
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_MAX_JOBS = 500


class QueryJobs:
    """The query jobs of all projects. A job is done when it is created."""

    def __init__(self, store: Store, rows: TableRows) -> None:
        self._rows = rows
        self._jobs = Table(store, "bigquery/jobs", "Job")

    def routes(self) -> Iterator[Route]:
        """The methods of jobs."""
        project, permissions = "projects/{project}", "bigquery.jobs"
        yield Route("POST", f"{project}/queries", "jobs.query", self.query, f"{permissions}.create", "QueryRequest")
        yield Route("GET", f"{project}/queries/{{job}}", "jobs.getQueryResults", self.get_results, f"{permissions}.get")
        yield Route("POST", f"{project}/jobs", "jobs.insert", self.create, f"{permissions}.create", "Job")
        yield Route("GET", f"{project}/jobs", "jobs.list", self.find_all, f"{permissions}.list")
        yield Route("GET", f"{project}/jobs/{{job}}", "jobs.get", self.get, f"{permissions}.get")
        yield Route("POST", f"{project}/jobs/{{job}}/cancel", "jobs.cancel", self.cancel, f"{permissions}.update")

    def query(self, call: Call) -> Obj:
        """Run a query and return the first page of its results."""
        location = call.body.get("location")
        job = self._run(call, {"query": call.body}, {"location": location} if location else {})
        results = self._results(call, job, call.body.get("maxResults"))
        return {**{key: value for key, value in results.items() if key != "etag"}, "kind": "bigquery#queryResponse"}

    def create(self, call: Call) -> Obj:
        """Create a query job; load, copy and extract jobs are not supported."""
        configuration = call.body.get("configuration") or {}
        if not configuration.get("query"):
            raise invalid_argument("The twin supports query jobs only: load, copy and extract jobs are not supported.")
        return self._run(call, configuration, call.body.get("jobReference") or {}).body

    def get_results(self, call: Call) -> Obj:
        """Return a page of the results of a job."""
        return self._results(call, self._get_document(call), None)

    def get(self, call: Call) -> Obj:
        """Return a job."""
        return self._get_document(call).body

    def find_all(self, call: Call) -> Obj:
        """List the jobs of a project."""
        page, token = paginate(call, self._jobs.all(call.params["project"]))
        fields = ("id", "jobReference", "configuration", "status", "statistics")
        jobs = [{**{key: job.body[key] for key in fields}, "state": "DONE"} for job in page]
        return {"kind": "bigquery#jobList", **({"jobs": jobs} if jobs else {}), **token}

    def cancel(self, call: Call) -> Obj:
        """Return the job, which is always done."""
        return {"kind": "bigquery#jobCancelResponse", "job": self._get_document(call).body}

    def _run(self, call: Call, configuration: Obj, reference: Obj) -> Document:
        project, name = call.params["project"], str(reference.get("jobId") or f"job_{clock.uid()}")
        if self._jobs.get(project, name) is not None:
            raise already_exists(f"Job {project}:{name}")
        fields, rows = self._execute(project, configuration["query"])
        location = str(reference.get("location") or "US")
        now = str(int(clock.now().timestamp() * 1000))
        settings = {key: value for key, value in configuration["query"].items() if key in _STORED_SETTINGS}
        body = {
            "kind": "bigquery#job",
            "id": f"{project}:{location}.{name}",
            "selfLink": f"https://www.googleapis.com/bigquery/v2/projects/{project}/jobs/{name}?location={location}",
            "user_email": call.caller,
            "jobReference": {"projectId": project, "jobId": name, "location": location},
            "configuration": {"jobType": "QUERY", "query": {**settings, "useLegacySql": False}},
            "status": {"state": "DONE"},
            "statistics": {
                "creationTime": now,
                "startTime": now,
                "endTime": now,
                "query": {"statementType": "SELECT", "cacheHit": False},
            },
        }
        document = Document(project, name, body, {"fields": fields, "rows": rows})
        self._jobs.put(document)
        self._delete_oldest(project)
        return document

    def _delete_oldest(self, project: str) -> None:
        if self._jobs.count() > 2 * _MAX_JOBS:
            oldest = sorted(self._jobs.all(project), key=lambda job: str(job.body["statistics"]["creationTime"]))
            for document in oldest[:_MAX_JOBS]:
                self._jobs.delete(document)

    def _execute(self, project: str, query_config: Obj) -> tuple[list[Obj], list[list[Any]]]:
        if query_config.get("useLegacySql") is True:
            raise _invalid_query("Legacy SQL is not supported")
        try:
            query = sql.parse(str(query_config.get("query") or ""))
            table = self._table(project, query.table, query_config.get("defaultDataset") or {})
            return execute(query, columns(table), self._rows.all(table), _parameters(query_config))
        except sql.UnsupportedQuery as error:
            raise _invalid_query(str(error)) from error

    def _table(self, project: str, name: str, default: Obj) -> Document:
        parts = name.replace(":", ".").split(".")
        parts = [str(default["datasetId"]), *parts] if len(parts) == 1 and default.get("datasetId") else parts
        parts = [str(default.get("projectId") or project), *parts] if len(parts) == 2 else parts
        if len(parts) != 3:
            message = f'Table "{name}" must be qualified with a dataset (e.g. dataset.table).'
            raise GoogleError("INVALID_ARGUMENT", message, reason="invalid")
        error = GoogleError("NOT_FOUND", f"Not found: Table {parts[0]}:{parts[1]}.{parts[2]}")
        return require(self._rows.find_table(*parts), error)

    def _results(self, call: Call, job: Document, max_results: Any) -> Obj:
        query = {**call.query, **({"maxResults": str(max_results)} if max_results is not None else {})}
        page_call = Call(call.service, call.version, call.method, call.params, {**_format_options(call.body), **query})
        results = {
            "kind": "bigquery#getQueryResultsResponse",
            "etag": job.uid,
            "schema": {"fields": job.inner["fields"]},
            "jobReference": job.body["jobReference"],
            "totalRows": str(len(job.inner["rows"])),
            "totalBytesProcessed": "0",
            "jobComplete": True,
            "cacheHit": False,
        }
        return {**results, **paginate_rows(page_call, job.inner["fields"], job.inner["rows"])}

    def _get_document(self, call: Call) -> Document:
        project, name = call.params["project"], call.params["job"]
        return require(self._jobs.get(project, name), GoogleError("NOT_FOUND", f"Not found: Job {project}:{name}"))


_STORED_SETTINGS = frozenset({"query", "defaultDataset", "parameterMode", "queryParameters", "priority", "useQueryCache"})


def _format_options(body: Obj) -> dict[str, str]:
    use_int64 = (body.get("formatOptions") or {}).get("useInt64Timestamp")
    return {"formatOptions.useInt64Timestamp": "true"} if use_int64 else {}


def _parameters(query_config: Obj) -> dict[str, Any]:
    """The values of named scalar parameters; raises INVALID_ARGUMENT for others."""
    values = {}
    for parameter in query_config.get("queryParameters") or ():
        value = (parameter.get("parameterValue") or {}).get("value")
        if not parameter.get("name") or value is None:
            raise _invalid_query("Only named parameters with one value are supported")
        values[str(parameter["name"])] = value
    return values


def _invalid_query(problem: str) -> GoogleError:
    return GoogleError("INVALID_ARGUMENT", f"{problem}: {sql.SUPPORTED}.", reason="invalidQuery")
