"""Datasets and tables of BigQuery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.names import numeric_id
from sliceworks.twin.cloud.core.collection import check_etag, paginate
from sliceworks.twin.cloud.core.document_store import Document, Table, require
from sliceworks.twin.cloud.core.exceptions import GoogleError, already_exists, condition_not_met, invalid_argument
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService
from sliceworks.twin.cloud.google.bigquery import table_data
from sliceworks.twin.cloud.google.bigquery.query_job import QueryJobs
from sliceworks.twin.cloud.google.bigquery.table_data import TableRows, columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_DEFAULT_ACCESS = [
    {"role": "WRITER", "specialGroup": "projectWriters"},
    {"role": "OWNER", "specialGroup": "projectOwners"},
    {"role": "READER", "specialGroup": "projectReaders"},
]


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    rows = TableRows(context.store)
    routes = [*Datasets(context.store, rows).routes(), *QueryJobs(context.store, rows).routes()]
    return [RestService("bigquery", "v2", routes)]


class Datasets:
    """Datasets and tables of all projects."""

    def __init__(self, store: Store, rows: TableRows) -> None:
        self._datasets = Table(store, "bigquery/datasets", "Dataset")
        self._tables = Table(store, "bigquery/tables", "Table")
        self._rows = rows

    def routes(self) -> Iterator[Route]:
        """The methods of datasets, tables and tabledata."""
        collection, permissions, request = "projects/{project}/datasets", "bigquery.datasets", "TableDataInsertAllRequest"
        item = f"{collection}/{{dataset}}"
        table = f"{item}/tables/{{table}}"
        yield Route("GET", collection, "datasets.list", self.find_all, f"{permissions}.get")
        yield Route("POST", collection, "datasets.insert", self.create, f"{permissions}.create", "Dataset")
        yield Route("GET", item, "datasets.get", self.get, f"{permissions}.get")
        for http in ("PUT", "PATCH"):
            yield Route(http, item, "datasets.update", self.update, f"{permissions}.update", "Dataset")
            yield Route(http, table, "tables.update", self.update_table, "bigquery.tables.update", "Table")
        yield Route("DELETE", item, "datasets.delete", self.delete, f"{permissions}.delete")
        yield Route("GET", f"{item}/tables", "tables.list", self.list_tables, "bigquery.tables.list")
        yield Route("POST", f"{item}/tables", "tables.insert", self.create_table, "bigquery.tables.create", "Table")
        yield Route("GET", table, "tables.get", self.get_table, "bigquery.tables.get")
        yield Route("DELETE", table, "tables.delete", self.delete_table, "bigquery.tables.delete")
        yield Route("POST", f"{table}/insertAll", "tabledata.insertAll", self.insert_rows, "bigquery.tables.updateData", request)
        yield Route("GET", f"{table}/data", "tabledata.list", self.list_rows, "bigquery.tables.getData")

    def create(self, call: Call) -> Obj:
        """Create a dataset."""
        project = call.params["project"]
        name = str((call.body.get("datasetReference") or {}).get("datasetId") or "")
        if not name.replace("_", "a").isalnum():
            raise invalid_argument(f'Invalid dataset ID "{name}". Dataset IDs must be alphanumeric (plus underscores).')
        if self._datasets.get(project, name) is not None:
            raise already_exists(f"Dataset {project}:{name}")
        body = _fill_dataset(project, name, {"access": _DEFAULT_ACCESS, **call.body}, None)
        self._datasets.put(Document(project, name, body))
        return body

    def get(self, call: Call) -> Obj:
        """Return a dataset."""
        return self._get_dataset(call).body

    def find_all(self, call: Call) -> Obj:
        """List the datasets of a project."""
        page, token = paginate(call, self._datasets.all(call.params["project"]))
        fields = ("kind", "id", "datasetReference", "location", "labels")
        datasets = [{key: dataset.body[key] for key in fields if key in dataset.body} for dataset in page]
        return {"kind": "bigquery#datasetList", **({"datasets": datasets} if datasets else {}), **token}

    def update(self, call: Call) -> Obj:
        """Change the fields of the body; raises 412 for a stale etag."""
        document = self._get_dataset(call)
        check_etag(call, document.body["etag"])
        if call.body.get("etag") not in (None, document.body["etag"]):
            raise condition_not_met("Precondition check failed.")
        document.body = _fill_dataset(call.params["project"], document.name, {**document.body, **call.body}, document.body)
        self._datasets.put(document)
        return document.body

    def delete(self, call: Call) -> Obj:
        """Delete a dataset; one with tables only with `deleteContents=true`."""
        document = self._get_dataset(call)
        tables = list(self._tables.all(_dataset_id(call)))
        if tables and call.query.get("deleteContents") != "true":
            message = f"Dataset {call.params['project']}:{document.name} is still in use"
            raise GoogleError("INVALID_ARGUMENT", message, reason="resourceInUse")
        for table in tables:
            self._rows.delete_table(table)
            self._tables.delete(table)
        self._datasets.delete(document)
        return {}

    def create_table(self, call: Call) -> Obj:
        """Create a table."""
        self._get_dataset(call)
        name = str((call.body.get("tableReference") or {}).get("tableId") or "")
        if self._tables.get(_dataset_id(call), name) is not None:
            raise already_exists(f"Table {call.params['project']}:{call.params['dataset']}.{name}")
        body = _fill_table(call, name, dict(call.body), None)
        self._tables.put(Document(_dataset_id(call), name, body))
        return body

    def get_table(self, call: Call) -> Obj:
        """Return a table."""
        return self._get_table(call).body

    def list_tables(self, call: Call) -> Obj:
        """List the tables of a dataset."""
        self._get_dataset(call)
        documents = list(self._tables.all(_dataset_id(call)))
        page, token = paginate(call, documents)
        tables = [{key: table.body[key] for key in ("kind", "id", "tableReference", "type")} for table in page]
        return {"kind": "bigquery#tableList", "totalItems": len(documents), **({"tables": tables} if tables else {}), **token}

    def update_table(self, call: Call) -> Obj:
        """Change the fields of the body; columns can only be added at the end."""
        document = self._get_table(call)
        check_etag(call, document.body["etag"])
        before = columns(document)
        document.body = _fill_table(call, document.name, {**document.body, **call.body}, document.body)
        if list(map(_column_identity, columns(document)[: len(before)])) != list(map(_column_identity, before)):
            raise invalid_argument(f"Provided Schema does not match Table {_dataset_id(call)}.{document.name}.")
        self._tables.put(document)
        return document.body

    def delete_table(self, call: Call) -> Obj:
        """Delete a table and its rows."""
        document = self._get_table(call)
        self._rows.delete_table(document)
        self._tables.delete(document)
        return {}

    def insert_rows(self, call: Call) -> Obj:
        """`tabledata.insertAll`."""
        return self._rows.insert_all(call, self._get_table(call))

    def list_rows(self, call: Call) -> Obj:
        """`tabledata.list`."""
        return self._rows.list_page(call, self._get_table(call))

    def _get_dataset(self, call: Call) -> Document:
        error = GoogleError("NOT_FOUND", f"Not found: Dataset {_dataset_id(call)}")
        return require(self._datasets.get(call.params["project"], call.params["dataset"]), error)

    def _get_table(self, call: Call) -> Document:
        error = GoogleError("NOT_FOUND", f"Not found: Table {_dataset_id(call)}.{call.params['table']}")
        return require(self._tables.get(_dataset_id(call), call.params["table"]), error)


def _dataset_id(call: Call) -> str:
    return f"{call.params['project']}:{call.params['dataset']}"


def _column_identity(column: Obj) -> tuple[str, str]:
    """The parts of a column that an update cannot change."""
    return str(column.get("name")).lower(), table_data.column_type(column)


def _fill_dataset(project: str, name: str, body: Obj, before: Obj | None) -> Obj:
    version = str(int((before or {}).get("lastModifiedTime") or 0) + 1)
    resource = {
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
    return {**resource, "etag": numeric_id(f"{project}:{name}@{version}")}


def _fill_table(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
    project, dataset = call.params["project"], call.params["dataset"]
    version = str(int((before or {}).get("lastModifiedTime") or 0) + 1)
    resource = {
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
    return {**resource, "etag": numeric_id(f"{project}:{dataset}.{name}@{version}")}
