"""BigQuery's jobs: queries in the small SQL, done when they are answered, and their results for who comes back for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.cloud.errors import GoogleError, already_exists, invalid
from sliceworks.twin.cloud.plain import sql
from sliceworks.twin.cloud.plain.answers import answer
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.plain.rows import columns, paged
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.plain.rows import Rows
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_KEPT = 500


class Jobs:
    """Queries that were asked."""

    def __init__(self, store: Store, rows: Rows) -> None:
        self._rows = rows
        self._jobs = Table(store, "bigquery/jobs", "Job")

    def routes(self) -> Iterator[Route]:
        """Ask at once, or begin a job and come back."""
        at = "projects/{project}"
        may = "bigquery.jobs"
        yield Route("POST", f"{at}/queries", "jobs.query", self.query, f"{may}.create", "QueryRequest")
        yield Route("GET", f"{at}/queries/{{job}}", "jobs.getQueryResults", self.results, f"{may}.get")
        yield Route("POST", f"{at}/jobs", "jobs.insert", self.begin, f"{may}.create", "Job")
        yield Route("GET", f"{at}/jobs", "jobs.list", self.find_all, f"{may}.list")
        yield Route("GET", f"{at}/jobs/{{job}}", "jobs.get", self.get, f"{may}.get")
        yield Route("POST", f"{at}/jobs/{{job}}/cancel", "jobs.cancel", self.cancel, f"{may}.update")

    def query(self, call: Call) -> Obj:
        """Ask, and have the first page of the answer."""
        asked = call.body
        reference = {"location": asked.get("location")}
        job = self._asked(call, {"query": asked}, {key: value for key, value in reference.items() if value})
        found = self._results(call, job, asked.get("maxResults"))
        return {**{key: value for key, value in found.items() if key != "etag"}, "kind": "bigquery#queryResponse"}

    def begin(self, call: Call) -> Obj:
        """Begin a job; those that load, copy or extract are not done here."""
        configuration = call.body.get("configuration") or {}
        if not configuration.get("query"):
            raise invalid("The twin's BigQuery does query jobs only: load, copy and extract are not supported.")
        return self._asked(call, configuration, call.body.get("jobReference") or {}).body

    def results(self, call: Call) -> Obj:
        """The answer to a query, page by page."""
        return self._results(call, self._found(call), None)

    def get(self, call: Call) -> Obj:
        """A job."""
        return self._found(call).body

    def find_all(self, call: Call) -> Obj:
        """The jobs of a project."""
        found, more = page(call, self._jobs.all(call.params["project"]))
        kept = ("id", "jobReference", "configuration", "status", "statistics")
        told = [{**{key: each.body[key] for key in kept}, "state": "DONE"} for each in found]
        return {"kind": "bigquery#jobList", **({"jobs": told} if told else {}), **more}

    def cancel(self, call: Call) -> Obj:
        """Too late: every job is done."""
        return {"kind": "bigquery#jobCancelResponse", "job": self._found(call).body}

    def _asked(self, call: Call, configuration: Obj, reference: Obj) -> Document:
        project, name = call.params["project"], str(reference.get("jobId") or f"job_{clock.uid()}")
        if self._jobs.get(project, name) is not None:
            raise already_exists(f"Job {project}:{name}")
        fields, rows = self._answered(project, configuration["query"])
        location = str(reference.get("location") or "US")
        now = str(int(clock.now().timestamp() * 1000))
        kept = {key: value for key, value in configuration["query"].items() if key in _SETTINGS}
        body = {
            "kind": "bigquery#job",
            "id": f"{project}:{location}.{name}",
            "selfLink": f"https://www.googleapis.com/bigquery/v2/projects/{project}/jobs/{name}?location={location}",
            "user_email": call.caller,
            "jobReference": {"projectId": project, "jobId": name, "location": location},
            "configuration": {"jobType": "QUERY", "query": {**kept, "useLegacySql": False}},
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
        self._forget_old(project)
        return document

    def _forget_old(self, project: str) -> None:
        if self._jobs.count() > 2 * _KEPT:
            oldest = sorted(self._jobs.all(project), key=lambda each: str(each.body["statistics"]["creationTime"]))
            for document in oldest[:_KEPT]:
                self._jobs.remove(document)

    def _answered(self, project: str, asked: Obj) -> tuple[list[Obj], list[list[Any]]]:
        if asked.get("useLegacySql") is True:
            raise _refused("Legacy SQL is not supported")
        try:
            query = sql.parse(str(asked.get("query") or ""))
            table = self._table(project, query.table, asked.get("defaultDataset") or {})
            return answer(query, columns(table), self._rows.all(table), _parameters(asked))
        except sql.Unsupported as error:
            raise _refused(str(error)) from error

    def _table(self, project: str, name: str, default: Obj) -> Document:
        parts = name.replace(":", ".").split(".")
        parts = [str(default["datasetId"]), *parts] if len(parts) == 1 and default.get("datasetId") else parts
        parts = [str(default.get("projectId") or project), *parts] if len(parts) == 2 else parts
        if len(parts) != 3:
            said = f'Table "{name}" must be qualified with a dataset (e.g. dataset.table).'
            raise GoogleError("INVALID_ARGUMENT", said, reason="invalid")
        found = self._rows.table(*parts)
        if found is None:
            raise GoogleError("NOT_FOUND", f"Not found: Table {parts[0]}:{parts[1]}.{parts[2]}")
        return found

    def _results(self, call: Call, job: Document, most: Any) -> Obj:
        query = {**call.query, **({"maxResults": str(most)} if most is not None else {})}
        asked = Call(call.service, call.version, call.method, call.params, {**_formats(call.body), **query})
        found = {
            "kind": "bigquery#getQueryResultsResponse",
            "etag": job.uid,
            "schema": {"fields": job.inner["fields"]},
            "jobReference": job.body["jobReference"],
            "totalRows": str(len(job.inner["rows"])),
            "totalBytesProcessed": "0",
            "jobComplete": True,
            "cacheHit": False,
        }
        return {**found, **paged(asked, job.inner["fields"], job.inner["rows"])}

    def _found(self, call: Call) -> Document:
        document = self._jobs.get(call.params["project"], call.params["job"])
        if document is None:
            raise GoogleError("NOT_FOUND", f"Not found: Job {call.params['project']}:{call.params['job']}")
        return document


_SETTINGS = frozenset({"query", "defaultDataset", "parameterMode", "queryParameters", "priority", "useQueryCache"})


def _formats(body: Obj) -> dict[str, str]:
    whole = (body.get("formatOptions") or {}).get("useInt64Timestamp")
    return {"formatOptions.useInt64Timestamp": "true"} if whole else {}


def _parameters(asked: Obj) -> dict[str, Any]:
    """The values of named parameters; others are refused."""
    found = {}
    for each in asked.get("queryParameters") or ():
        value = (each.get("parameterValue") or {}).get("value")
        if not each.get("name") or value is None:
            raise _refused("Only named parameters with one value are supported")
        found[str(each["name"])] = value
    return found


def _refused(said: str) -> GoogleError:
    return GoogleError("INVALID_ARGUMENT", f"{said}: {sql.SUPPORTED}.", reason="invalidQuery")
