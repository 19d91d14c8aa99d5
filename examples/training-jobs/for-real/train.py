"""Trains a small model on all hosts of all slices, keeps checkpoints, and goes on from the last one.

Every host has its own part of the data; the gradients are averaged over all of them. The first host writes checkpoints and what
TensorBoard shows. With STEP_SECONDS a step takes that long at least, so that there is time to see it.
"""

import os
import signal
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.summary import scalar

STEPS, EVERY, RATE = int(os.environ.get("STEPS", "60")), 10, 0.2
PAUSE = float(os.environ.get("STEP_SECONDS", "0"))
checkpoints, logs = Path(os.environ["CHECKPOINT_DIR"]), Path(os.environ["LOG_DIR"])

address = os.environ["JAX_COORDINATOR_ADDRESS"]
hosts = len(os.environ["TPU_WORKER_HOSTNAMES"].split(","))
process = int(os.environ["MEGASCALE_SLICE_ID"]) * hosts + int(os.environ["TPU_WORKER_ID"])
jax.distributed.initialize(address, int(os.environ["JAX_NUM_PROCESSES"]), process, coordinator_bind_address=address)
# JAX waits for a word of all hosts when it is asked to end. What matters is in the checkpoint: end at once.
signal.signal(signal.SIGTERM, signal.SIG_DFL)
mesh = Mesh(jax.devices(), ("hosts",))
rows, everywhere = NamedSharding(mesh, PartitionSpec("hosts")), NamedSharding(mesh, PartitionSpec())

# Points around two rings: which ring is a point on? Two layers can tell, one could not.
random = numpy.random.default_rng(process)
ring = random.integers(0, 2, 256)
angle, radius = random.uniform(0, 2 * numpy.pi, 256), 1.0 + ring + random.normal(0, 0.1, 256)
points = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], axis=1)
inputs = jax.make_array_from_process_local_data(rows, points.astype("float32"))
labels = jax.make_array_from_process_local_data(rows, ring.astype("float32"))


def loss(weights, inputs, labels):
    hidden = jnp.tanh(inputs @ weights["first"] + weights["shift"])
    guess = hidden @ weights["second"] + weights["bias"]
    return jnp.mean(jnp.logaddexp(0.0, guess) - labels * guess)


@jax.jit
def step(weights, speed, inputs, labels):
    value, slopes = jax.value_and_grad(loss)(weights, inputs, labels)
    speed = jax.tree.map(lambda fast, slope: 0.9 * fast - RATE * slope, speed, slopes)
    return jax.tree.map(jnp.add, weights, speed), speed, value


def beginning():
    """The newest checkpoint, or weights that know nothing. All hosts read the same file."""
    kept = max(checkpoints.glob("step-*.npz"), default=None)
    if kept is not None:
        with numpy.load(kept) as found:
            return int(found["step"]), *({name: found[f"{part}/{name}"] for name in NAMES} for part in ("weights", "speed"))
    draw = numpy.random.default_rng(0)
    shapes = {"first": (2, 16), "shift": (16,), "second": (16,), "bias": ()}
    weights = {name: draw.normal(0, 0.5, shapes[name]).astype("float32") for name in NAMES}
    return 0, weights, {name: numpy.zeros_like(weights[name]) for name in NAMES}


def keep(number, weights, speed):
    """Written beside, then renamed: a host that dies meanwhile leaves no half a checkpoint."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    unfinished = checkpoints / "unfinished.npz"
    parts = {"weights": weights, "speed": speed}
    numpy.savez(unfinished, step=number, **{f"{part}/{name}": parts[part][name] for part in parts for name in NAMES})
    unfinished.rename(checkpoints / f"step-{number:06d}.npz")


NAMES = ("first", "shift", "second", "bias")
first, weights, speed = beginning()
weights, speed = (jax.device_put(part, everywhere) for part in (weights, speed))
print(f"host {process} of {jax.process_count()} begins at step {first}", flush=True)
if process == 0:
    # Writes at once: the usual SummaryWriter hands losses to a thread, so a checkpoint could be there before its losses.
    logs.mkdir(parents=True, exist_ok=True)
    writer = EventsWriter(str(logs / "events"))
for number in range(first + 1, STEPS + 1):
    weights, speed, value = step(weights, speed, inputs, labels)
    shown = float(value)
    time.sleep(PAUSE)
    if process == 0:
        writer.write_event(Event(wall_time=time.time(), step=number, summary=scalar("loss", shown)))
        if number % EVERY == 0:
            writer.flush()
            keep(number, *(jax.tree.map(numpy.asarray, part) for part in (weights, speed)))
            print(f"step {number}: loss {shown:.4f}", flush=True)
if process == 0:
    writer.close()
print(f"host {process} is done after step {STEPS}", flush=True)
