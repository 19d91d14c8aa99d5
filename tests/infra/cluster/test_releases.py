"""Release files: where they come from, which of their files is meant, and that another file than the one meant is refused."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support import environments

from sliceworks.base.errors import SliceworksError
from sliceworks.infra.cluster.releases import Release, releases, sha256
from sliceworks.infra.cluster.shelves import Files, OfTheTwin

if TYPE_CHECKING:
    from pathlib import Path

TEXT = b"""apiVersion: v1
kind: Namespace
metadata: {name: kueue-system}
---
kind: List
items:
- {kind: Service}
- {kind: Secret}
"""


@pytest.fixture
def published(tmp_path: Path) -> Release:
    """A release that is published in a folder of this machine."""
    file = tmp_path / "published" / "manifests.yaml"
    file.parent.mkdir()
    file.write_bytes(TEXT)
    return Release("kueue", "v0.15.0", file.as_uri(), "", ("kueue.x-k8s.io/v1beta2", "ClusterQueue"))


def test_versions_are_those_of_the_document_and_only_what_is_wanted_is_fetched() -> None:
    found = {each.name: each for each in releases(environments.small("  addons: {versions: {kueue: v0.16.1}}\n").spec)}
    assert list(found) == ["jobset", "kueue"]
    assert found["kueue"].url == "https://github.com/kubernetes-sigs/kueue/releases/download/v0.16.1/manifests.yaml"
    assert found["jobset"].url == "https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml"
    [operator] = releases(environments.example("self-service").spec)
    assert operator.url == "https://storage.googleapis.com/configconnector-operator/1.155.0/release-bundle.tar.gz"
    assert operator.member == "autopilot-configconnector-operator.yaml"
    [_jobset, _kueue, standard] = releases(environments.small("  selfService: {}\n").spec)
    assert standard.member == "configconnector-operator.yaml"


def test_a_file_is_fetched_once_and_kept(published: Release, tmp_path: Path) -> None:
    shelf = Files(tmp_path / "kept")
    objects, checksum = shelf.objects(published, {})
    assert [each["kind"] for each in objects] == ["Namespace", "Service", "Secret"]
    assert checksum == sha256(TEXT)
    (tmp_path / "published" / "manifests.yaml").unlink()
    assert shelf.objects(published, {published.title: checksum}) == (objects, checksum)


def test_another_file_than_the_first_is_refused(published: Release, tmp_path: Path) -> None:
    before = sha256(b"what it was")
    with pytest.raises(
        SliceworksError, match=f"kueue v0.15.0: the file's SHA-256 is {sha256(TEXT)}, and should be {before}"
    ) as caught:
        Files(tmp_path / "kept").objects(published, {published.title: before})
    assert "spec.addons.checksums" in caught.value.hint
    assert not (tmp_path / "kept").exists()


def test_the_documents_checksum_counts_more_than_the_first_files(published: Release, tmp_path: Path) -> None:
    pinned = replace(published, checksum=sha256(TEXT))
    assert Files(tmp_path / "kept").objects(pinned, {published.title: sha256(b"other")})[1] == sha256(TEXT)
    with pytest.raises(SliceworksError, match="SHA-256"):
        Files(tmp_path / "other").objects(replace(published, checksum="0" * 64), {})


def test_a_kept_file_that_somebody_changed_is_fetched_anew(published: Release, tmp_path: Path) -> None:
    shelf = Files(tmp_path / "kept")
    shelf.objects(published, {})
    (tmp_path / "kept" / published.file).write_bytes(b"kind: Evil\n")
    assert shelf.objects(published, {published.title: sha256(TEXT)})[1] == sha256(TEXT)


def test_a_folder_that_is_given_is_used_and_nothing_is_fetched(published: Release, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    offline = replace(published, url="http://127.0.0.1:9/manifests.yaml")
    with pytest.raises(SliceworksError, match=r"has no kueue-v0\.15\.0\.yaml"):
        Files(tmp_path / "kept", given).objects(offline, {})
    (given / "kueue.yaml").write_bytes(TEXT)
    assert Files(tmp_path / "kept", given).objects(offline, {})[1] == sha256(TEXT)
    assert not (tmp_path / "kept").exists()


def test_what_cannot_be_fetched_says_where_and_what_to_do(published: Release, tmp_path: Path) -> None:
    offline = replace(published, url="http://127.0.0.1:9/manifests.yaml")
    with pytest.raises(SliceworksError, match=r"kueue v0\.15\.0 cannot be fetched from http://127\.0\.0\.1:9/") as caught:
        Files(tmp_path / "kept").objects(offline, {})
    assert caught.value.hint == "put the file into a folder as kueue-v0.15.0.yaml, and give it with --manifests"


def bundle(name: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        entry = tarfile.TarInfo(f"operator-system/{name}")
        entry.size = len(TEXT)
        archive.addfile(entry, io.BytesIO(TEXT))
    return stream.getvalue()


def test_the_operator_is_found_in_its_archive() -> None:
    [operator] = releases(environments.example("self-service").spec)
    assert [each["kind"] for each in operator.objects(bundle(operator.member))] == ["Namespace", "Service", "Secret"]
    assert operator.objects(TEXT)  # taken out by hand
    with pytest.raises(SliceworksError, match=r"the archive has no autopilot-configconnector-operator\.yaml"):
        operator.objects(bundle("other.yaml"))
    with pytest.raises(SliceworksError, match="cannot be read"):
        operator.objects(bundle(operator.member)[:100])


def test_a_twin_without_workloads_says_what_it_lacks(published: Release) -> None:
    with pytest.raises(SliceworksError, match="this twin has no kueue") as caught:
        OfTheTwin().objects(published, {})
    assert "--no-workloads" in caught.value.hint
