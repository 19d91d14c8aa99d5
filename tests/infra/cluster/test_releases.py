"""Release files: their sources, their selection, and rejection of files with another checksum."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support import environments

from sliceworks.base.errors import SliceworksError
from sliceworks.infra.cluster.addon import Release, ReleaseFiles, TwinReleases, required_releases, sha256

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
    """A release that is published in a local folder."""
    file = tmp_path / "published" / "manifests.yaml"
    file.parent.mkdir()
    file.write_bytes(TEXT)
    return Release("kueue", "v0.15.0", file.as_uri(), "", ("kueue.x-k8s.io/v1beta2", "ClusterQueue"))


def test_required_releases_have_the_documents_versions() -> None:
    result = {
        release.name: release for release in required_releases(environments.small("  addons: {versions: {kueue: v0.16.1}}\n").spec)
    }
    assert list(result) == ["jobset", "kueue"]
    assert result["kueue"].url == "https://github.com/kubernetes-sigs/kueue/releases/download/v0.16.1/manifests.yaml"
    assert result["jobset"].url == "https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml"
    [operator] = required_releases(environments.example("self-service").spec)
    assert operator.url == "https://storage.googleapis.com/configconnector-operator/1.155.0/release-bundle.tar.gz"
    assert operator.member == "autopilot-configconnector-operator.yaml"
    [_jobset, _kueue, standard] = required_releases(environments.small("  selfService: {}\n").spec)
    assert standard.member == "configconnector-operator.yaml"


def test_file_is_fetched_once(published: Release, tmp_path: Path) -> None:
    shelf = ReleaseFiles(tmp_path / "kept")
    objects, checksum = shelf.objects(published, {})
    assert [obj["kind"] for obj in objects] == ["Namespace", "Service", "Secret"]
    assert checksum == sha256(TEXT)
    (tmp_path / "published" / "manifests.yaml").unlink()
    assert shelf.objects(published, {published.title: checksum}) == (objects, checksum)


def test_changed_file_is_rejected(published: Release, tmp_path: Path) -> None:
    before = sha256(b"what it was")
    with pytest.raises(SliceworksError, match=f"kueue v0.15.0: SHA-256 is {sha256(TEXT)}, expected {before}") as caught:
        ReleaseFiles(tmp_path / "kept").objects(published, {published.title: before})
    assert "spec.addons.checksums" in caught.value.hint
    assert not (tmp_path / "kept").exists()


def test_checksum_of_the_document_takes_precedence(published: Release, tmp_path: Path) -> None:
    pinned = replace(published, checksum=sha256(TEXT))
    assert ReleaseFiles(tmp_path / "kept").objects(pinned, {published.title: sha256(b"other")})[1] == sha256(TEXT)
    with pytest.raises(SliceworksError, match="SHA-256"):
        ReleaseFiles(tmp_path / "other").objects(replace(published, checksum="0" * 64), {})


def test_tampered_cache_is_fetched_again(published: Release, tmp_path: Path) -> None:
    shelf = ReleaseFiles(tmp_path / "kept")
    shelf.objects(published, {})
    (tmp_path / "kept" / published.file).write_bytes(b"kind: Evil\n")
    assert shelf.objects(published, {published.title: sha256(TEXT)})[1] == sha256(TEXT)


def test_given_folder_is_used_without_fetching(published: Release, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    offline = replace(published, url="http://127.0.0.1:9/manifests.yaml")
    with pytest.raises(SliceworksError, match=r"kueue-v0\.15\.0\.yaml not found in"):
        ReleaseFiles(tmp_path / "kept", folder).objects(offline, {})
    (folder / "kueue.yaml").write_bytes(TEXT)
    assert ReleaseFiles(tmp_path / "kept", folder).objects(offline, {})[1] == sha256(TEXT)
    assert not (tmp_path / "kept").exists()


def test_failed_fetch_has_a_hint(published: Release, tmp_path: Path) -> None:
    offline = replace(published, url="http://127.0.0.1:9/manifests.yaml")
    with pytest.raises(SliceworksError, match=r"cannot fetch kueue v0\.15\.0 from http://127\.0\.0\.1:9/") as caught:
        ReleaseFiles(tmp_path / "kept").objects(offline, {})
    assert caught.value.hint == "save the file as kueue-v0.15.0.yaml in a folder, and pass the folder with --manifests"


def bundle(name: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        entry = tarfile.TarInfo(f"operator-system/{name}")
        entry.size = len(TEXT)
        archive.addfile(entry, io.BytesIO(TEXT))
    return stream.getvalue()


def test_operator_is_found_in_its_archive() -> None:
    [operator] = required_releases(environments.example("self-service").spec)
    assert [obj["kind"] for obj in operator.objects(bundle(operator.member))] == ["Namespace", "Service", "Secret"]
    assert operator.objects(TEXT)  # extracted by hand
    with pytest.raises(SliceworksError, match=r"autopilot-configconnector-operator\.yaml not found in the archive"):
        operator.objects(bundle("other.yaml"))
    with pytest.raises(SliceworksError, match="cannot read"):
        operator.objects(bundle(operator.member)[:100])


def test_twin_without_workloads_is_an_error(published: Release) -> None:
    with pytest.raises(SliceworksError, match="this twin has no kueue") as caught:
        TwinReleases().objects(published, {})
    assert "--no-workloads" in caught.value.hint
