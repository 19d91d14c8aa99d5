"""A model is published after its checkpoint was converted and its servers are ready."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base import yaml_documents
from sliceworks.platform import loader
from sliceworks.rehearsal.basic_run import rehearse

if TYPE_CHECKING:
    from sliceworks.rehearsal.basic_run import Rehearsal

EXAMPLE = Path(__file__).parents[2] / "examples" / "models" / "llama2-7b-saxml.yaml"
POOL = "cloud.google.com/gke-nodepool"
TPU = {
    POOL: "tpu",
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
    "cloud.google.com/gke-tpu-topology": "2x2",
}


def node(name: str, labels: dict[str, str]) -> dict[str, object]:
    capacity = {"cpu": "240", "memory": "2000Gi", "pods": "110", "ephemeral-storage": "2000Gi"}
    chips = {"google.com/tpu": "4"} if labels is TPU else {}
    metadata = {"name": name, "labels": {"sliceworks.dev/node": "simulated", **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": {**capacity, **chips}}}


def rehearsed(folder: Path, *pools: str) -> Rehearsal:
    nodes = [node(name, {POOL: name}) for name in pools] + [node("tpu", TPU)]
    (folder / "10-nodes.yaml").write_text(yaml_documents.dump_all(nodes))
    (folder / "20-model.yaml").write_text(EXAMPLE.read_text())
    return rehearse(loader.load(folder), seconds=3600)


def jobs(done: Rehearsal, verb: str, text: str) -> float:
    return next(item.at for item in done.timeline if item.subject.startswith("Job ") and text in item.subject and item.verb == verb)


def test_conversion_comes_before_publication(tmp_path: Path) -> None:
    done = rehearsed(tmp_path, "large", "saxml-admin", "saxml-proxy")
    converted = next(
        item.at
        for item in done.timeline
        if item.subject.startswith("Job ") and "convert" in item.subject and "Complete" in item.note
    )
    assert jobs(done, "created", "publish") >= converted >= 1200
    [publisher] = [outcome for outcome in done.outcomes if "publish" in outcome.document.data["metadata"]["name"]]
    assert publisher.result == "created"
    assert "Complete" in publisher.state or "1/1" in publisher.state


def test_model_without_its_checkpoint_is_not_published(tmp_path: Path) -> None:
    done = rehearsed(tmp_path, "saxml-admin", "saxml-proxy")
    [publisher] = [outcome for outcome in done.outcomes if "publish" in outcome.document.data["metadata"]["name"]]
    assert publisher.result == "waiting"
    assert publisher.state.startswith("waits for Job/")
    assert not [item for item in done.timeline if item.subject.startswith("Job ") and "publish" in item.subject]
