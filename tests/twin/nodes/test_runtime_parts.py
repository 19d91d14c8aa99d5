"""Parts of the process runtime without processes: variables, names, paths and logs."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.twin import main
from sliceworks.twin.apiserver.streaming.remote_command import StreamOptions
from sliceworks.twin.nodes.runtime import container_log, pod_volumes
from sliceworks.twin.nodes.runtime.container_log import LogOptions, LogWriter, read_log, stream_log
from sliceworks.twin.nodes.runtime.container_session import ExecSession
from sliceworks.twin.nodes.runtime.envvars import MARKER, Command, expand, tpu_variables
from sliceworks.twin.nodes.runtime.pod_dns import LoopbackRange, PodHosts
from sliceworks.twin.nodes.runtime.process import MountView, kill_marked, kill_orphans, pid_file
from sliceworks.twin.nodes.runtime.value_sources import Sources, read_field, read_resource_field

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]
PODS = IPv4Network("127.1.0.0/17")
TPU: Object = {"name": "main", "resources": {"limits": {"google.com/tpu": "4"}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A) and $(B)", "1 and $(B)"),
        ("$$(A)", "$(A)"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("a$$b", "a$b"),
        ("", ""),
    ],
)
def test_expand_resolves_references(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job-0.web:80", "127.1.0.1:80"),
        ("http://job-0.web.ml.svc.cluster.local:80/x", "http://127.1.0.1:80/x"),
        ("job-0.web,job-1.web", "127.1.0.1,127.1.0.2"),
        ("job-0.web.ml job-0.web.ml.svc", "127.1.0.1 127.1.0.1"),
        ("job-0.webber my.job-0.web job-0.web.example.com", "job-0.webber my.job-0.web job-0.web.example.com"),
    ],
)
def test_pod_names_are_replaced_by_addresses(text: str, expected: str) -> None:
    assert PodHosts(PODS).replace_names(text, "ml", "web") == expected


def test_pod_name_keeps_its_address() -> None:
    hosts = PodHosts(PODS)
    assert hosts.replace_names("b.web", "ml", "web") == "127.1.0.1"
    assert (
        hosts.register({"metadata": {"name": "x", "namespace": "ml", "uid": "u"}, "spec": {"hostname": "b", "subdomain": "web"}})
        == "127.1.0.1"
    )
    assert hosts.address("other", "b", "web") == "127.1.0.2"
    assert PodHosts(IPv4Network("127.7.0.0/17")).address("ml", "b", "web") == "127.7.0.1"
    assert PodHosts(None).address("ml", "b", "web") == "127.0.0.1"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on every loopback address")
def test_two_twins_have_different_networks() -> None:
    one, two = LoopbackRange(), LoopbackRange()
    try:
        assert one.number
        assert two.number
        assert one.number != two.number
    finally:
        one.close()
        again = LoopbackRange()
        assert again.number != two.number
        two.close()
        again.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on every loopback address")
def test_network_can_be_another_one() -> None:
    addresses = LoopbackRange(IPv4Network("10.66.0.0/16"))
    try:
        assert addresses.networks == (IPv4Network("10.66.0.0/17"), IPv4Network("10.66.128.0/17"))
    finally:
        addresses.close()


def slice_pod(**labels: str) -> Object:
    known = {
        "batch.kubernetes.io/job-completion-index": "1",
        "jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "2",
        "jobset.sigs.k8s.io/job-index": "1",
        **labels,
    }
    selector = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice", "cloud.google.com/gke-tpu-topology": "2x2x2"}
    metadata = {"name": "train-workers-1-1-abcde", "namespace": "ml", "labels": known}
    return {"metadata": metadata, "spec": {"subdomain": "train", "nodeSelector": selector, "containers": [TPU]}}


def test_command_that_does_not_exist_leaves_no_descriptors(tmp_path: Path) -> None:
    command = Command(("nosuch",), {"PATH": str(tmp_path)}, MountView(str(tmp_path)))

    async def main() -> set[int]:
        counts = set()
        for _ in range(3):
            with pytest.raises(OSError, match='exec: "nosuch": No such file or directory'):
                await ExecSession.start(command, StreamOptions(stdin=True, stdout=True, stderr=True))
            counts.add(len(list(Path("/dev/fd").iterdir())))
        return counts

    assert len(asyncio.run(main())) == 1


def test_tpu_variables_of_a_multislice_job() -> None:
    job = {"metadata": {"name": "train-workers-1"}, "spec": {"completions": 2, "parallelism": 2}}
    assert tpu_variables(slice_pod(), TPU, job) == {
        "TPU_WORKER_ID": "1",
        "TPU_WORKER_HOSTNAMES": "train-workers-1-0.train,train-workers-1-1.train",
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_TOPOLOGY": "2x2x2",
        "TPU_ACCELERATOR_TYPE": "v5p-16",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
        "MEGASCALE_COORDINATOR_ADDRESS": "train-workers-0-0.train",
        "MEGASCALE_PORT": "8080",
    }


def test_single_slice_has_no_megascale_variables() -> None:
    result = tpu_variables(slice_pod(**{"jobset.sigs.k8s.io/replicatedjob-replicas": "1"}), TPU, None)
    assert not [name for name in result if name.startswith("MEGASCALE")]


def test_labels_that_users_wrote_may_be_invalid() -> None:
    """A pod with such labels must still start."""
    result = tpu_variables(slice_pod(**{"jobset.sigs.k8s.io/replicatedjob-replicas": "many"}), TPU, None)
    assert not [name for name in result if name.startswith("MEGASCALE")]
    metadata = {"name": "p", "labels": {"jobset.sigs.k8s.io/replicatedjob-replicas": "2"}}
    selector = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice", "cloud.google.com/gke-tpu-topology": "all"}
    result = tpu_variables({"metadata": metadata, "spec": {"containers": [TPU], "nodeSelector": selector}}, TPU, None)
    assert {name for name in result if name.startswith(("MEGASCALE", "TPU_ACC", "TPU_TOP"))} == {"TPU_TOPOLOGY"}


def test_single_pod_is_its_own_worker() -> None:
    result = tpu_variables({"metadata": {"name": "p"}, "spec": {"containers": [TPU]}}, TPU, None)
    assert (result["TPU_WORKER_ID"], result["TPU_WORKER_HOSTNAMES"]) == ("0", "localhost")
    assert tpu_variables(slice_pod(), {"name": "sidecar"}, None) == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['a/b']", "c"),
        ("metadata.annotations['none']", ""),
        ("metadata.labels", 'a/b="c"'),
        ("status.podIP", "10.0.0.2"),
        ("status.hostIP", "172.16.0.2"),
    ],
)
def test_downward_api_fields(path: str, expected: str) -> None:
    pod: Object = {"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a/b": "c"}}, "spec": {}}
    assert read_field(pod, path, ("172.16.0.2", "10.0.0.2")) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.memory", "divisor": "1Mi"}, "512"),
        ({"resource": "limits.memory", "containerName": "other"}, "1024"),
        ({"resource": "requests.memory", "containerName": "other"}, "0"),
        ({"resource": "limits.ephemeral-storage"}, "0"),
    ],
)
def test_resource_fields_use_the_divisor(reference: Object, expected: str) -> None:
    main = {"name": "main", "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "512Mi"}}}
    assert read_resource_field({"spec": {"containers": [main, {"name": "other"}]}}, main, reference, {"memory": "1Ki"}) == expected


def test_claim_is_shared_by_pods(tmp_path: Path) -> None:
    named = [{"name": "files", "persistentVolumeClaim": {"claimName": "runs"}}, {"name": "own", "emptyDir": {}}]
    created = []
    for uid, source in (("one", {"csi": {}}), ("two", {"csi": {}}), ("three", {"local": {"path": "/disk"}})):
        sources = Sources({"metadata": {"namespace": "team"}, "spec": {"volumes": named, "nodeName": "host"}}, None, {})
        sources.volumes = {"runs": {"metadata": {"name": "pvc-1"}, "spec": source}}
        created.append(pod_volumes.populate_volumes(tmp_path / uid / "volumes", sources, ("", "")))
    assert created[0]["files"] == created[1]["files"] == tmp_path / "volumes" / "pvc-1"
    assert created[2]["files"] == tmp_path / "nodes" / "host" / "disk"
    assert created[0]["own"] != created[1]["own"]
    folders = [folder for one in created for folder in one.values()]
    assert all(folder.is_dir() and folder.is_relative_to(tmp_path) for folder in folders)
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o777}  # pods of any user write to them


@pytest.fixture
def create_volume(tmp_path: Path) -> Callable[[Object], Path]:
    """Creates a hostPath volume of a pod on the node `host`."""

    def create(source: Object) -> Path:
        spec = {"volumes": [{"name": "v", "hostPath": source}], "nodeName": "host"}
        sources = Sources({"metadata": {"namespace": "team"}, "spec": spec}, None, {})
        return pod_volumes.populate_volumes(tmp_path / "uid" / "volumes", sources, ("", ""))["v"]

    return create


def test_files_of_a_node_are_created_once(create_volume: Callable[[Object], Path], tmp_path: Path) -> None:
    file = create_volume({"path": "/var/log/app.log", "type": "FileOrCreate"})
    assert file == tmp_path / "nodes" / "host" / "var" / "log" / "app.log"
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"", 0o644)
    file.write_text("kept")
    assert create_volume({"path": "/var/log/app.log", "type": "File"}).read_text() == "kept"


def test_node_has_the_hosts_file_of_this_machine(create_volume: Callable[[Object], Path]) -> None:
    file = create_volume({"path": "/etc/hosts", "type": "File"})
    assert file.read_bytes() == Path("/etc/hosts").read_bytes()


def test_volume_of_another_type_is_not_a_file(create_volume: Callable[[Object], Path]) -> None:
    create_volume({"path": "/var/log"})
    for source in ({"path": "/var/log", "type": "FileOrCreate"}, {"path": "/none", "type": "File"}):
        with pytest.raises(pod_volumes.InvalidVolume, match=f"^hostPath type check failed: {source['path']} is not a file$"):
            create_volume(source)


def test_file_of_a_node_does_not_follow_links(create_volume: Callable[[Object], Path], tmp_path: Path) -> None:
    create_volume({"path": "/data"}).joinpath("link").symlink_to(tmp_path)
    with pytest.raises(pod_volumes.InvalidVolume):
        create_volume({"path": "/data/link/file", "type": "FileOrCreate"})
    assert not (tmp_path / "file").exists()


def test_mount_paths_are_replaced_by_folders() -> None:
    container = {"volumeMounts": [{"name": "a", "mountPath": "/data"}, {"name": "b", "mountPath": "/data/in", "subPath": "x"}]}
    mounts = pod_volumes.mount_folders(container, {"a": Path("/tmp/a"), "b": Path("/tmp/b")})
    assert (
        pod_volumes.replace_mount_paths("cat /data/in/f /data/g /database --to=/data", mounts)
        == "cat /tmp/b/x/f /tmp/a/g /database --to=/tmp/a"
    )
    within = {"/etc/settings": "/tmp/pods/a/settings", "/tmp": "/tmp/pods/a/scratch"}
    assert pod_volumes.replace_mount_paths("-f /etc/settings/x /tmp/y", within) == "-f /tmp/pods/a/settings/x /tmp/pods/a/scratch/y"


def test_log_options_select_lines(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_bytes(
        b"2026-01-05T08:00:00.000000Z F one\n2026-01-05T08:00:01.000000Z F two words\n2026-01-05T08:00:02.000000Z P end\n"
    )
    assert read_log(file, LogOptions()) == b"one\ntwo words\nend"
    assert read_log(file, LogOptions(tail=2)) == b"two words\nend"
    assert read_log(file, LogOptions(tail=0)) == b""
    assert read_log(file, LogOptions(since=datetime(2026, 1, 5, 8, 0, 1, tzinfo=UTC))) == b"two words\nend"
    assert read_log(file, LogOptions(limit=5)) == b"one\nt"
    assert read_log(file, LogOptions(tail=1, timestamps=True)) == b"2026-01-05T08:00:02.000000Z end"
    assert read_log(tmp_path / "none.log", LogOptions()) == b""


def test_processes_require_a_loopback_listener(tmp_path: Path) -> None:
    def folder(**options: Any) -> Path | None:
        return main._process_directory(main.TwinOptions("t", tmp_path, **options))

    assert folder() is None
    assert folder(processes=True) == tmp_path / "pods"
    assert folder(processes=True, host="::1") == tmp_path / "pods"
    for host in ("0.0.0.0", "192.168.1.2", "example.com"):
        with pytest.raises(SliceworksError, match="cannot run processes"):
            folder(processes=True, host=host)
    with pytest.raises(SliceworksError, match="without workloads"):
        folder(processes=True, workloads=False)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells when a process began, and none is ended")
def test_kill_orphans_checks_the_start_time(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as sleeper:
        try:
            mark = pid_file(tmp_path / "pod" / "main")
            mark.parent.mkdir(parents=True)
            born = int(Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[19])
            for written in (f"{sleeper.pid} {born - 1}", f"{sleeper.pid} 0", f"{sleeper.pid}", "no number"):
                mark.write_text(written)
                kill_orphans(tmp_path)
                assert not mark.exists()
                assert sleeper.poll() is None
            mark.write_text(f"{sleeper.pid} {born}")
            kill_orphans(tmp_path)
            assert sleeper.wait(120) == -signal.SIGKILL
        finally:
            sleeper.kill()


def test_reading_a_log_ends_however_fast_the_container_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not follow gets what the log has when it is opened, also if it is rotated meanwhile."""
    monkeypatch.setattr(container_log, "_MAX_BYTES", 2000)
    writer = LogWriter(tmp_path / "0.log")
    writer._append(b"first\n")

    async def main() -> None:
        read = []
        async for chunk in stream_log(tmp_path / "0.log", LogOptions()):
            read.append(chunk)
            writer._append(b"more\n" * 30)
            assert len(read) < 100
        assert read == [b"first\n"]

    clock.run(main())
    writer.close()


def test_logs_are_rotated_and_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_log, "_MAX_BYTES", 4_000)
    monkeypatch.setattr(container_log, "_CHUNK", 512)
    file = tmp_path / "logs" / "0.log"

    async def main() -> None:
        source, ended, parts = asyncio.StreamReader(), asyncio.Event(), [b""]
        writer = LogWriter(file)
        writing = asyncio.create_task(writer.write_all(lambda: source.read(1 << 16)))

        async def follow() -> None:
            parts.extend([part async for part in stream_log(file, LogOptions(), ended)])

        following = asyncio.create_task(follow())
        for number in range(1_000):
            source.feed_data(b"line %d\n" % number)
            await clock.sleep(0.3)
        source.feed_eof()
        await writing
        ended.set()
        await following
        assert b"".join(parts) == b"".join(b"line %d\n" % number for number in range(1_000))

    clock.run(main(), virtual=True)
    names = sorted(entry.name for entry in file.parent.iterdir())
    assert names == ["0.log", "0.log.1", "0.log.2", "0.log.3", "0.log.4"]
    assert all(entry.stat().st_size < 4_100 for entry in file.parent.iterdir())
    for count in (0, 1, 3, 20):
        expected = b"".join(b"line %d\n" % number for number in range(1_000 - count, 1_000))
        assert read_log(file, LogOptions(tail=count)) == expected

    async def streamed(options: LogOptions) -> bytes:
        return b"".join([part async for part in stream_log(file, options)])

    assert clock.run(streamed(LogOptions(tail=2))) == b"line 998\nline 999\n"
    assert clock.run(streamed(LogOptions(tail=2, limit=5))) == b"line "
    assert clock.run(streamed(LogOptions())) == read_log(file, LogOptions())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_end_of_a_container_keeps_the_processes_of_one_whose_name_begins_alike() -> None:
    uid = str(uuid.uuid4())
    ended, other = (
        subprocess.Popen(["/bin/sleep", "1000"], env={MARKER: f"{uid}/{name}"}, start_new_session=True) for name in ("a", "ab")
    )
    try:
        kill_marked(f"{uid}/a")
        assert ended.wait() == -signal.SIGKILL
        assert other.poll() is None
        kill_marked(uid)
        assert other.wait() == -signal.SIGKILL
    finally:
        for process in (ended, other):
            process.kill()
            process.wait()
