"""A JobSet made ready to be sent once more: without what the cluster has written into it. Pure.

Kueue adds the labels and tolerations of the flavors that it chose to the pod templates of what it starts; a new job must be free to
get others. Its Workload still has the templates as they were.
"""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]
_KEPT = ("name", "namespace", "labels", "annotations")
_PUT_BACK = ("nodeSelector", "tolerations", "schedulingGates")


def fresh(jobset: Object, workload: Object | None) -> Object:
    """The same job, as it was submitted."""
    metadata = {key: copy.deepcopy(jobset["metadata"][key]) for key in _KEPT if jobset["metadata"].get(key)}
    spec = copy.deepcopy(jobset["spec"])
    spec.pop("suspend", None)
    was = {each["name"]: each for each in ((workload or {}).get("spec") or {}).get("podSets") or ()}
    for job in spec["replicatedJobs"]:
        if job["name"] in was:
            _put_back(job["template"]["spec"]["template"], was[job["name"]]["template"])
    return {"apiVersion": jobset["apiVersion"], "kind": jobset["kind"], "metadata": metadata, "spec": spec}


def _put_back(template: Object, was: Object) -> None:
    """What an admission changes, as it was before."""
    for key in _PUT_BACK:
        template["spec"].pop(key, None)
        if was["spec"].get(key):
            template["spec"][key] = copy.deepcopy(was["spec"][key])
    for key in ("labels", "annotations"):
        before = (was.get("metadata") or {}).get(key)
        (template.setdefault("metadata", {})).pop(key, None)
        if before:
            template["metadata"][key] = dict(before)
    if not template["metadata"]:
        del template["metadata"]
