"""Trains a small model on all hosts of all slices, writes checkpoints, and resumes from the last one.

Every host has its own part of the data; gradients are averaged over all hosts. The first host writes checkpoints and TensorBoard
events. STEP_SECONDS sets a minimum duration of a step, so that you can watch the training.
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
# On SIGTERM JAX waits for all hosts. The checkpoint has everything: exit at once.
signal.signal(signal.SIGTERM, signal.SIG_DFL)
mesh = Mesh(jax.devices(), ("hosts",))
rows, everywhere = NamedSharding(mesh, PartitionSpec("hosts")), NamedSharding(mesh, PartitionSpec())

# Points on two rings, classified by ring: needs two layers.
random = numpy.random.default_rng(process)
ring = random.integers(0, 2, 256)
angle, radius = random.uniform(0, 2 * numpy.pi, 256), 1.0 + ring + random.normal(0, 0.1, 256)
points = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], axis=1)
inputs = jax.make_array_from_process_local_data(rows, points.astype("float32"))
labels = jax.make_array_from_process_local_data(rows, ring.astype("float32"))


def loss(weights, inputs, labels):
    hidden = jnp.tanh(inputs @ weights["first"] + weights["shift"])
    logits = hidden @ weights["second"] + weights["bias"]
    return jnp.mean(jnp.logaddexp(0.0, logits) - labels * logits)


@jax.jit
def step(weights, velocity, inputs, labels):
    value, gradients = jax.value_and_grad(loss)(weights, inputs, labels)
    velocity = jax.tree.map(lambda v, gradient: 0.9 * v - RATE * gradient, velocity, gradients)
    return jax.tree.map(jnp.add, weights, velocity), velocity, value


def load_checkpoint():
    """Return step, weights and velocity of the newest checkpoint, or initial ones. All hosts read the same file."""
    newest = max(checkpoints.glob("step-*.npz"), default=None)
    if newest is not None:
        with numpy.load(newest) as arrays:
            return int(arrays["step"]), *({name: arrays[f"{part}/{name}"] for name in NAMES} for part in ("weights", "velocity"))
    random = numpy.random.default_rng(0)
    shapes = {"first": (2, 16), "shift": (16,), "second": (16,), "bias": ()}
    weights = {name: random.normal(0, 0.5, shapes[name]).astype("float32") for name in NAMES}
    return 0, weights, {name: numpy.zeros_like(weights[name]) for name in NAMES}


def save_checkpoint(number, weights, velocity):
    """Write to a temporary file and rename it, so that a crash leaves no partial checkpoint."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    unfinished = checkpoints / "unfinished.npz"
    parts = {"weights": weights, "velocity": velocity}
    numpy.savez(unfinished, step=number, **{f"{part}/{name}": parts[part][name] for part in parts for name in NAMES})
    unfinished.rename(checkpoints / f"step-{number:06d}.npz")


NAMES = ("first", "shift", "second", "bias")
first, weights, velocity = load_checkpoint()
weights, velocity = (jax.device_put(part, everywhere) for part in (weights, velocity))
print(f"host {process} of {jax.process_count()} begins at step {first}", flush=True)
if process == 0:
    # Synchronous: SummaryWriter uses a thread, so a checkpoint could exist before its losses are written.
    logs.mkdir(parents=True, exist_ok=True)
    writer = EventsWriter(str(logs / "events"))
for number in range(first + 1, STEPS + 1):
    weights, velocity, value = step(weights, velocity, inputs, labels)
    current_loss = float(value)
    time.sleep(PAUSE)
    if process == 0:
        writer.write_event(Event(wall_time=time.time(), step=number, summary=scalar("loss", current_loss)))
        if number % EVERY == 0:
            writer.flush()
            save_checkpoint(number, *(jax.tree.map(numpy.asarray, part) for part in (weights, velocity)))
            print(f"step {number}: loss {current_loss:.4f}", flush=True)
if process == 0:
    writer.close()
print(f"host {process} is done after step {STEPS}", flush=True)
