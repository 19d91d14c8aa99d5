"""The example with real training: four JAX processes on two slices; after one is killed, training resumes from a checkpoint."""

from __future__ import annotations

import os
import signal
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import hostname

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD, Resource
from sliceworks.platform import loader
from sliceworks.training.status import job_state
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "training-jobs" / "for-real"
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True)
TEAM, NAME, STEPS = "vision", "rings", 60
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")
Object = dict[str, Any]
_BEGINS = " of 4 begins at step "


@hostname.needed
@pytest.mark.long(30)
@pytest.mark.timeout(600)
def test_training_resumes_from_checkpoint_after_a_host_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("tensorboardX")
    volumes = tmp_path / "volumes"

    async def main() -> dict[str, list[str]]:
        async with Cluster(ca="the authority", processes=tmp_path) as twin:
            client = Client(twin.transport())
            for document in loader.load(EXAMPLE):
                await client.apply(document.data)
            await until(lambda: steps_kept(volumes) >= 10, "a checkpoint")
            kill(tmp_path, await host(client, f"{NAME}-slice-1-1"))
            await until(lambda: restarts(client), "a restart")
            kept = steps_kept(volumes)
            assert 10 <= kept < STEPS
            await until(lambda: completed(client), "the end")
            names = [pod["metadata"]["name"] for pod in await pods(client)]
            return {name.rpartition("-")[0]: (await client.logs(name, TEAM)).splitlines() for name in names}

    output = clock.run(main())
    assert sorted(output) == [f"{NAME}-slice-{slice_}-{host_}" for slice_ in (0, 1) for host_ in (0, 1)]
    started = [int(line.partition(_BEGINS)[2]) for lines in output.values() for line in lines if _BEGINS in line]
    first = started[0]
    assert started == [first] * 4
    assert first >= 10
    assert first % 10 == 0
    assert all(lines[-1].endswith(f"is done after step {STEPS}") for lines in output.values()), output
    assert steps_kept(volumes) == STEPS
    check_losses(sorted(volumes.glob("*/logs/events.out.tfevents.*")), first)


def check_losses(files: list[Path], first: int) -> None:
    """One TensorBoard file for each attempt; the second continues at the checkpoint, and the loss falls."""
    assert len(files) == 2
    before, after = (dict(scalars(file)) for file in files)
    assert min(before) == 1
    assert first <= max(before) < STEPS
    assert (min(after), max(after)) == (first + 1, STEPS)
    assert after[STEPS] < 0.35 < before[1]
    # The same step from the same checkpoint has the same loss: no step is lost or repeated.
    for step in before.keys() & after.keys():
        assert after[step] == pytest.approx(before[step], rel=1e-4)


def steps_kept(volumes: Path) -> int:
    """The step of the newest checkpoint in the volume of the job."""
    return max((int(file.stem.partition("-")[2]) for file in volumes.glob("*/checkpoints/step-*.npz")), default=0)


def kill(folder: Path, pod: Object) -> None:
    """Kill all processes of a host."""
    [mark] = (folder / pod["metadata"]["uid"]).glob("*/process")
    group, _started = mark.read_text().split()
    os.killpg(int(group), signal.SIGKILL)


async def pods(client: Client) -> list[Object]:
    return (await client.list(POD, TEAM)).items


async def host(client: Client, name: str) -> Object:
    return next(pod for pod in await pods(client) if pod["metadata"]["name"].startswith(f"{name}-"))


async def restarts(client: Client) -> bool:
    return bool((await client.get(JOBSET, NAME, TEAM)).get("status", {}).get("restarts"))


async def completed(client: Client) -> bool:
    result = job_state(await client.get(JOBSET, NAME, TEAM))
    assert result != "failed"
    return result == "completed"


async def until(true: Callable[[], bool] | Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(2000):
        result = true()
        if result if isinstance(result, bool) else await result:
            return
        await clock.sleep(0.1)
    raise AssertionError(f"timed out waiting for {what}")


def scalars(file: Path) -> Iterator[tuple[int, float]]:
    """Steps and losses of a TensorBoard file in its published format: records with checksums, each a protobuf message."""
    data, place = file.read_bytes(), 0
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        head, body = data[place : place + 8], data[place + 12 : place + 12 + length]
        assert struct.unpack_from("<I", data, place + 8)[0] == checksum(head)
        assert struct.unpack_from("<I", data, place + 12 + length)[0] == checksum(body)
        place += 16 + length
        event = message(body)
        for value in (message(item) for summary in event.get(5, ()) for item in message(summary).get(1, ())):
            assert value[1] == [b"loss"]
            yield event[2][0], struct.unpack("<f", value[2][0])[0]


def message(data: bytes) -> dict[int, list[Any]]:
    """The fields of a protobuf message, by number."""
    result: dict[int, list[Any]] = {}
    place = 0
    while place < len(data):
        tag, place = number(data, place)
        if tag & 7 == 0:
            value, place = number(data, place)
            result.setdefault(tag >> 3, []).append(value)
            continue
        length, place = number(data, place) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], place)
        result.setdefault(tag >> 3, []).append(data[place : place + length])
        place += length
    return result


def number(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[place] & 127) << shift
        shift, place = shift + 7, place + 1
        if data[place - 1] < 128:
            return value, place


def checksum(data: bytes) -> int:
    """CRC-32C, masked as in these files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
