"""Jobs of a Sax cell: checkpoints are converted before servers start, models are published when they have. Pure."""

from __future__ import annotations

import hashlib
import shlex
from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.kube.gke import pool
from sliceworks.serving import objects, pods
from sliceworks.serving.machines import small

if TYPE_CHECKING:
    from sliceworks.specs.serving import ModelService, Saxml, SaxModel

Object = dict[str, Any]
_FOLDER = "/checkpoints"
_MODULE = "saxml.server.pax.lm.params.lm_cloud"
_CONVERTING = {RUN_SECONDS: "1200", **pods.SIMULATED}
_PUBLISHING = {RUN_SECONDS: "60", **pods.SIMULATED}
_NOT_LOADED = 3
# Every step's failure ends the script, and so fails the Job. Orbax takes a checkpoint in a bucket for whole only where each of
# its folders has the mark: marks go up last, when everything else is there, and at the very end a mark of ours for whoever comes
# again.
_CONVERT = """\
set -euo pipefail
if gcloud storage ls {done}; then echo "it was converted before"; exit 0; fi
mkdir -p {folder}/base {folder}/pax
gcloud storage cp --recursive {source}/* {folder}/base
python3 -m {module} --base {folder}/base --pax {folder}/pax {args}
{quantize}cd {folder}/pax
[ -n "$(find . -type f)" ] || {{ echo "the converter wrote nothing" >&2; exit 1; }}
gcloud storage rsync --recursive . {target}
find . -type d -exec touch {{}}/commit_success.txt \\;
gcloud storage rsync --recursive . {target}
gcloud storage ls {target}/**/commit_success.txt
gcloud storage cp commit_success.txt {done}
"""
# Sax's own tool reads and writes the state alone; what else there is of a checkpoint stays as it is.
_QUANTIZE = """\
tools=$(python3 -c 'import saxml.tools; print(list(saxml.tools.__path__)[0])')
mv {folder}/pax/{checkpoint}/state {folder}/float
cd {folder}/pax/{checkpoint}
python3 "$tools/offline_quantize.py" --input_dir={folder}/float --output_dir="$PWD/state" --quantization_configs={name}
"""
# A model is published at once, given to a server and loaded in its own time: it is there when it answers.
_WAIT = """\
until saxutil lm.generate {path} Hello; do
  if [ "$SECONDS" -ge {patience} ]; then echo "no server has loaded it: their logs say why" >&2; exit {code}; fi
  sleep {pause}
done
saxutil ls {path}"""
_PAUSE = 10


def model_class(model: SaxModel) -> str:
    """The class with its whole module."""
    return model.model_class if "." in model.model_class else f"{_MODULE}.{model.model_class}"


def conversions(service: ModelService, part: Saxml) -> list[Object]:
    """A Job for each model whose checkpoint is converted."""
    return [_conversion(service, model) for model in part.models if model.convert]


def _conversion(service: ModelService, model: SaxModel) -> Object:
    wanted = model.convert
    assert wanted is not None
    # The class names a folder such as checkpoint_00000000 within what the converter writes.
    target, _, checkpoint = model.checkpoint.rstrip("/").rpartition("/")
    source = wanted.source.rstrip("/")
    work = [source, wanted.module, *wanted.args, wanted.quantize or "", checkpoint]
    digest = hashlib.sha256(shlex.join(work).encode()).hexdigest()[:8]
    quantize = _QUANTIZE.format(folder=_FOLDER, checkpoint=shlex.quote(checkpoint), name=wanted.quantize)
    script = _CONVERT.format(
        folder=_FOLDER,
        source=shlex.quote(source),
        module=shlex.quote(wanted.module),
        args=shlex.join(wanted.args),
        quantize=quantize if wanted.quantize else "",
        target=shlex.quote(target),
        done=shlex.quote(f"{target}/converted-{digest}"),
    )
    container = pods.container(
        "convert",
        wanted.image,
        small(wanted.cpu, wanted.memory),
        command=["bash", "-c", script],
        env=[{"name": "CLOUDSDK_CONFIG", "value": f"{pods.SCRATCH}/gcloud"}, {"name": "JAX_PLATFORMS", "value": "cpu"}],
        mounts=[{"name": "checkpoints", "mountPath": _FOLDER}],
    )
    folder = {"name": "checkpoints", "emptyDir": {"sizeLimit": wanted.disk}}
    pod = pods.pod(service.spec, [container], pool(wanted.pool), volumes=[folder])
    template = objects.template(service, "converter", pod, **_CONVERTING)
    return objects.job(service, "convert", "converter", template, tries=1)


def publications(service: ModelService, part: Saxml, root: str) -> list[Object]:
    """A Job for each model that publishes it, in place of what has its name."""
    return [publication_of(service, part, root, model.name) for model in part.models] if part.publish else []


def publication_of(service: ModelService, part: Saxml, root: str, name: str) -> Object:
    """The Job of one of its models."""
    model = next(each for each in part.models if each.name == name)
    return _saxutil(service, part, root, _publish(service, part, model))


def unpublication(service: ModelService, part: Saxml, root: str, model: str) -> Object:
    """A Job that takes a model away from the cell."""
    return _saxutil(service, part, root, [_withdraw(f"{part.cell}/{model}")])


def _publish(service: ModelService, part: Saxml, model: SaxModel) -> list[str]:
    path = f"{part.cell}/{model.name}"
    words = [path, model_class(model), model.checkpoint, str(model.replicas or max(service.spec.replicas, 1))]
    known = shlex.quote(path)
    wait = _WAIT.format(path=known, patience=int(service.spec.start_within), pause=_PAUSE, code=_NOT_LOADED)
    # Sax can change the number of a published model's servers, and nothing else of it.
    return [_withdraw(path), shlex.join(["saxutil", "publish", *words]), wait]


def _withdraw(path: str) -> str:
    """It may have been withdrawn before, by whoever broke off then."""
    known = shlex.quote(path)
    return f"if saxutil ls {known}; then saxutil unpublish {known}; fi"


def _saxutil(service: ModelService, part: Saxml, root: str, lines: list[str]) -> Object:
    container = pods.container(
        "saxutil",
        part.util_image,
        small("500m", "512Mi"),
        command=["bash", "-c", "\n".join(["set -euo pipefail", *lines])],
        env=[{"name": "SAX_ROOT", "value": root}],
    )
    template = objects.template(service, "publisher", pods.pod(service.spec, [container], {}), **_PUBLISHING)
    # A server that cannot load a model will not do so when it is published anew.
    at_once = {"action": "FailJob", "onExitCodes": {"containerName": "saxutil", "operator": "In", "values": [_NOT_LOADED]}}
    return objects.job(service, "publish", "publisher", template, tries=6, podFailurePolicy={"rules": [at_once]})
