"""Whole kubectl sessions as transcripts next to this file: the output is the same on both clusters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support import kubectl, transcripts
from tests.support.clusters import real_enabled

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

APART = True
pytestmark = [
    pytest.mark.long(15),
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1"),
]
SESSIONS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("session", [pytest.param(path, id=path.stem) for path in SESSIONS])
def test_session(cluster: Cluster, ns: str, session: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = {
        "HOME": str(tmp_path),
        "KUBECONFIG": str(_kubeconfig(cluster, ns, tmp_path)),
        "LC_ALL": "C",
        "NS": ns,
        "PATH": f"{kubectl.program().parent}{os.pathsep}{os.environ['PATH']}",
        "TZ": "UTC",
    }
    words = {cluster.url: "SERVER", cluster.url.removeprefix("https://"): "SERVER", ns: "NS", str(tmp_path): "FOLDER"}
    transcripts.play(session, work, environment, words, recorder=cluster.name == "real")


def _kubeconfig(cluster: Cluster, ns: str, folder: Path) -> Path:
    """A copy of the cluster's kubeconfig whose context has the test's namespace."""
    config = yaml.load(cluster.kubeconfig.read_text(), yaml.CSafeLoader)
    config["contexts"][0]["context"]["namespace"] = ns
    path = folder / "kubeconfig"
    path.write_text(yaml.dump(config, Dumper=yaml.CSafeDumper))
    path.chmod(0o600)
    return path
