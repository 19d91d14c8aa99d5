"""BigQuery: datasets, who may use them, and tables with their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.errors import GoogleError, already_exists, invalid, stale
from sliceworks.twin.cloud.plain import cells
from sliceworks.twin.cloud.plain.conditions import check_etag
from sliceworks.twin.cloud.plain.jobs import Jobs
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.plain.rows import Rows, columns
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import number
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_USUAL_ACCESS = [
    {"role": "WRITER", "specialGroup": "projectWriters"},
    {"role": "OWNER", "specialGroup": "projectOwners"},
    {"role": "READER", "specialGroup": "projectReaders"},
]


class BigQuery:
    """Datasets and tables of all projects."""

    def __init__(self, store: Store) -> None:
        self._datasets = Table(store, "bigquery/datasets", "Dataset")
        self._tables = Table(store, "bigquery/tables", "Table")
        self.rows = Rows(store, self._tables)
        self._jobs = Jobs(store, self.rows)

    def service(self) -> PlainService:
        """The API."""
        return PlainService("bigquery", "v2", [*self._routes(), *self._jobs.routes()])

    def _routes(self) -> Iterator[Route]:
        at = "projects/{project}/datasets"
        one = f"{at}/{{dataset}}"
        table = f"{one}/tables/{{table}}"
        may = "bigquery.datasets"
        yield Route("GET", at, "datasets.list", self.find_all, f"{may}.get")
        yield Route("POST", at, "datasets.insert", self.create, f"{may}.create", "Dataset")
        yield Route("GET", one, "datasets.get", self.get, f"{may}.get")
        for http in ("PUT", "PATCH"):
            yield Route(http, one, "datasets.update", self.change, f"{may}.update", "Dataset")
            yield Route(http, table, "tables.update", self.change_table, "bigquery.tables.update", "Table")
        yield Route("DELETE", one, "datasets.delete", self.delete, f"{may}.delete")
        yield Route("GET", f"{one}/tables", "tables.list", self.tables, "bigquery.tables.list")
        yield Route("POST", f"{one}/tables", "tables.insert", self.create_table, "bigquery.tables.create", "Table")
        yield Route("GET", table, "tables.get", self.get_table, "bigquery.tables.get")
        yield Route("DELETE", table, "tables.delete", self.delete_table, "bigquery.tables.delete")
        may = "bigquery.tables"
        yield Route(
            "POST", f"{table}/insertAll", "tabledata.insertAll", self.insert, f"{may}.updateData", "TableDataInsertAllRequest"
        )
        yield Route("GET", f"{table}/data", "tabledata.list", self.data, f"{may}.getData")

    def create(self, call: Call) -> Obj:
        """A new dataset."""
        project = call.params["project"]
        name = str((call.body.get("datasetReference") or {}).get("datasetId") or "")
        if not name.replace("_", "a").isalnum():
            raise invalid(f'Invalid dataset ID "{name}". Dataset IDs must be alphanumeric (plus underscores).')
        if self._datasets.get(project, name) is not None:
            raise already_exists(f"Dataset {project}:{name}")
        body = _dataset(project, name, {"access": _USUAL_ACCESS, **call.body}, None)
        self._datasets.put(Document(project, name, body))
        return body

    def get(self, call: Call) -> Obj:
        """A dataset."""
        return self._dataset(call).body

    def find_all(self, call: Call) -> Obj:
        """The datasets of a project."""
        found, more = page(call, self._datasets.all(call.params["project"]))
        kept = ("kind", "id", "datasetReference", "location", "labels")
        told = [{key: each.body[key] for key in kept if key in each.body} for each in found]
        return {"kind": "bigquery#datasetList", **({"datasets": told} if told else {}), **more}

    def change(self, call: Call) -> Obj:
        """Other settings; who may use it stays as it is unless that is said too. A stale etag is refused."""
        document = self._dataset(call)
        check_etag(call, document.body["etag"])
        if call.body.get("etag") not in (None, document.body["etag"]):
            raise stale("Precondition check failed.")
        document.body = _dataset(call.params["project"], document.name, {**document.body, **call.body}, document.body)
        self._datasets.put(document)
        return document.body

    def delete(self, call: Call) -> Obj:
        """Remove a dataset that is empty, or with what is in it if told so."""
        document = self._dataset(call)
        inside = list(self._tables.all(self._home(call)))
        if inside and call.query.get("deleteContents") != "true":
            said = f"Dataset {call.params['project']}:{document.name} is still in use"
            raise GoogleError("INVALID_ARGUMENT", said, reason="resourceInUse")
        for table in inside:
            self.rows.forget(table)
            self._tables.remove(table)
        self._datasets.remove(document)
        return {}

    def create_table(self, call: Call) -> Obj:
        """A new table."""
        self._dataset(call)
        name = str((call.body.get("tableReference") or {}).get("tableId") or "")
        if self._tables.get(self._home(call), name) is not None:
            raise already_exists(f"Table {call.params['project']}:{call.params['dataset']}.{name}")
        body = _table(call, name, dict(call.body), None)
        self._tables.put(Document(self._home(call), name, body))
        return body

    def get_table(self, call: Call) -> Obj:
        """A table."""
        return self._table(call).body

    def tables(self, call: Call) -> Obj:
        """The tables of a dataset."""
        self._dataset(call)
        whole = list(self._tables.all(self._home(call)))
        found, more = page(call, whole)
        told = [{key: each.body[key] for key in ("kind", "id", "tableReference", "type")} for each in found]
        return {"kind": "bigquery#tableList", "totalItems": len(whole), **({"tables": told} if told else {}), **more}

    def change_table(self, call: Call) -> Obj:
        """Other settings of a table."""
        document = self._table(call)
        check_etag(call, document.body["etag"])
        before = columns(document)
        document.body = _table(call, document.name, {**document.body, **call.body}, document.body)
        if [_same(each) for each in columns(document)[: len(before)]] != [_same(each) for each in before]:
            raise invalid(f"Provided Schema does not match Table {self._home(call)}.{document.name}.")
        self._tables.put(document)
        return document.body

    def delete_table(self, call: Call) -> Obj:
        """Remove a table and what is in it."""
        document = self._table(call)
        self.rows.forget(document)
        self._tables.remove(document)
        return {}

    def insert(self, call: Call) -> Obj:
        """More rows."""
        return self.rows.insert(call, self._table(call))

    def data(self, call: Call) -> Obj:
        """The rows, page by page."""
        return self.rows.listed(call, self._table(call))

    def _home(self, call: Call) -> str:
        return f"{call.params['project']}:{call.params['dataset']}"

    def _dataset(self, call: Call) -> Document:
        document = self._datasets.get(call.params["project"], call.params["dataset"])
        if document is None:
            raise GoogleError("NOT_FOUND", f"Not found: Dataset {self._home(call)}")
        return document

    def _table(self, call: Call) -> Document:
        document = self._tables.get(self._home(call), call.params["table"])
        if document is None:
            raise GoogleError("NOT_FOUND", f"Not found: Table {self._home(call)}.{call.params['table']}")
        return document


def _same(column: Obj) -> tuple[str, str]:
    """What of a column stays as it is: others may come behind those that are there."""
    return str(column.get("name")).lower(), cells.kind_of(column)


def _dataset(project: str, name: str, body: Obj, before: Obj | None) -> Obj:
    version = str(int((before or {}).get("lastModifiedTime") or 0) + 1)
    made = {
        "kind": "bigquery#dataset",
        "location": "US",
        "maxTimeTravelHours": "168",
        "type": "DEFAULT",
        "creationTime": "1700000000000",
        **{key: value for key, value in body.items() if value is not None},
        "id": f"{project}:{name}",
        "selfLink": f"https://www.googleapis.com/bigquery/v2/projects/{project}/datasets/{name}",
        "datasetReference": {"projectId": project, "datasetId": name},
        "lastModifiedTime": version,
    }
    return {**made, "etag": number(f"{project}:{name}@{version}")}


def _table(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
    project, dataset = call.params["project"], call.params["dataset"]
    version = str(int((before or {}).get("lastModifiedTime") or 0) + 1)
    made = {
        "kind": "bigquery#table",
        "type": "TABLE",
        "numBytes": "0",
        "numLongTermBytes": "0",
        "numRows": "0",
        "location": "US",
        "creationTime": "1700000000000",
        **{key: value for key, value in body.items() if value is not None},
        "id": f"{project}:{dataset}.{name}",
        "selfLink": f"https://www.googleapis.com/bigquery/v2/projects/{project}/datasets/{dataset}/tables/{name}",
        "tableReference": {"projectId": project, "datasetId": dataset, "tableId": name},
        "lastModifiedTime": version,
    }
    return {**made, "etag": number(f"{project}:{dataset}.{name}@{version}")}
