"""Extracts the facts of Kueue's CustomResourceDefinitions from its Go module into the twin's file.

    python -m tests.real.extract_kueue

Descriptions are dropped. The twin stores the newest version, so that scheduling needs no conversion.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import orjson
from tests.real.build import module_folder
from tests.real.extract_definitions import extract
from tests.real.kueue import MODULE
from tests.real.programs import PROGRAMS

TARGET = Path(__file__).parents[2] / "src/sliceworks/twin/controllers/kueue/data/definitions.json.gz"
KINDS = (
    "admissionchecks",
    "clusterqueues",
    "cohorts",
    "localqueues",
    "resourceflavors",
    "topologies",
    "workloadpriorityclasses",
    "workloads",
)


def main() -> int:
    """Write the file."""
    folder = module_folder(PROGRAMS["kueue"], MODULE) / "config/components/crd/bases"
    result = []
    for kind in KINDS:
        definition = extract(folder / f"kueue.x-k8s.io_{kind}.yaml")
        for version in definition["spec"]["versions"]:
            version["storage"] = version["name"] == "v1beta2"
        result.append(definition)
    TARGET.write_bytes(gzip.compress(orjson.dumps(result), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
