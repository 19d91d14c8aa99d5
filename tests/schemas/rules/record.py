"""Records a real kube-apiserver's responses to the corpus: `python -m tests.schemas.rules.record https://127.0.0.1:6443 TOKEN`.

Creates are dry runs. For an update, the object is created, updated in a dry run, and deleted.
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request
from typing import Any

from tests.schemas.rules.cases import ANSWERS, NAMESPACE, Case, Json, cases

from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver.patch.jsonpatch import merge_patch

_VOLATILE = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation", "deletionTimestamp")


class Server:
    """A real API server, called without the client of Sliceworks."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self.warnings: list[str] = []
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    def send(self, method: str, path: str, body: Any = None) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": f"application/{'merge-patch+' if method == 'PATCH' else ''}json",
        }
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context) as response:
                answer: Json = json.load(response)
                # `299 - "message"`, with quotes inside escaped.
                self.warnings = [json.loads(text[6:]) for text in response.headers.get_all("Warning") or ()]
        except urllib.error.HTTPError as error:
            answer = json.load(error)
        return answer


def main() -> None:
    server = Server(sys.argv[1], sys.argv[2])
    server.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    result = {case.id: _ask(server, case) for case in cases()}
    ANSWERS.write_text(
        "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(answer, sort_keys=True)}" for name, answer in result.items()) + "\n}\n"
    )
    print(f"{len(result)} answers")


def _ask(server: Server, case: Case) -> Json:
    path = _path(case.object)
    answer = {"create": _answer(server.send("POST", f"{path}?dryRun=All&fieldValidation=Ignore", case.object))}
    if "object" in answer["create"] and server.warnings:
        answer["create"]["warnings"] = server.warnings
    if case.update is not None:
        created = server.send("POST", f"{path}?fieldValidation=Ignore", case.object)
        place = f"{path}/{case.object['metadata']['name']}"
        try:
            updated = merge_patch(created, case.update)
            target = f"{place}/{case.subresource}" if case.subresource else place
            answer["update"] = _answer(server.send("PUT", f"{target}?dryRun=All&fieldValidation=Ignore", updated))
        finally:
            server.send("DELETE", f"{place}?gracePeriodSeconds=0&propagationPolicy=Background")
            server.send("PATCH", place, {"metadata": {"finalizers": None}})
    return answer


def _answer(answer: Json) -> Json:
    if answer.get("kind") == "Status":
        causes = (answer.get("details") or {}).get("causes")
        return {"causes": causes} if causes else {"message": answer.get("message"), "reason": answer.get("reason")}
    uid = answer["metadata"].get("uid")
    for field in _VOLATILE:
        answer["metadata"].pop(field, None)
    stable: Json = json.loads(json.dumps(answer).replace(uid, "UID")) if uid else answer
    return {"object": stable}


def _path(obj: Json) -> str:
    group, _, version = obj["apiVersion"].rpartition("/")
    resource = next(
        resource
        for resource in builtin_scheme().resources
        if (resource.group, resource.version, resource.kind) == (group, version, obj["kind"])
    )
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{NAMESPACE}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"


if __name__ == "__main__":
    main()
