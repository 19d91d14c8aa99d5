"""The settings of each engine, and its models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sliceworks.specs.common import Amount, Name, Positive, Spec
from sliceworks.specs.model_service.components import Bucket, GcsUrl, Image, ModelName, Pool, SaxRoot, SecretKeyRef

ENGINES = ("saxml", "triton", "jetstream", "vllm")
_SAX = "us-docker.pkg.dev/cloud-tpu-images/inference"


class Model(Spec):
    """Fields of models of all engines."""

    name: ModelName = Field(description="The name that clients use.")
    memory: Amount | None = Field(default=None, description="Accelerator memory of the weights; estimated for known models.")


class Conversion(Spec):
    """A Job that downloads a checkpoint, converts it, uploads it and marks it as complete."""

    source: GcsUrl = Field(description="The original checkpoint.")
    module: str = Field(default="saxml.tools.convert_llama_ckpt", description="The Python module of the converter.")
    args: list[str] = Field(default_factory=list, description="For example --model-size=7b.")
    quantize: Literal["gptj", "gemma2b", "gemma7b", "llama2-70b-weight-linear-only-int8"] | None = Field(
        default=None, description="Sax's quantization for model classes with 8-bit weights; gptj for Llama 2 7B and 13B."
    )
    image: Image = Field(description="Image of the converter, from the environment's registry.")
    pool: Pool = Pool()
    cpu: Amount = "8"
    memory: Amount = "112G"
    disk: Amount = "100Gi"


class SaxModel(Model):
    """A model in a Sax cell."""

    model_class: str = Field(
        alias="class",
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$",
        description="For example LLaMA7BFP16TPUv5e, optionally with its module.",
    )
    checkpoint: GcsUrl | Literal["None"] = Field(description="A converted checkpoint, or None for random weights.")
    replicas: Positive | None = Field(default=None, description="Number of servers that load it; all by default.")
    convert: Conversion | None = None


class SaxAdmin(Spec):
    """The admin server of a cell."""

    pool: Pool = Pool()
    cpu: Amount = "2"
    memory: Amount = "4Gi"


class Saxml(Spec):
    """Saxml: an admin server, model servers with one slice each, and a pod with saxutil."""

    cell: Annotated[str, Field(pattern=r"^/sax/[A-Za-z0-9_-]+$")] = "/sax/test"
    admin_bucket: Bucket = Field(description="Bucket for the state of the cell.")
    root: SaxRoot | None = Field(
        default=None,
        description="`gs://ADMIN_BUCKET/sax-root` by default. For a cell that echoes, `grpc://HOST:PORT` of its admin server: "
        "then none is deployed.",
    )
    platform_chip: str = Field(default="", description="Sax's name of the chip; from the catalog by default.")
    admin: SaxAdmin = SaxAdmin()
    admin_image: Image = f"{_SAX}/sax-admin-server:v1.1.0"
    util_image: Image = f"{_SAX}/sax-util:v1.1.0"
    util_command: list[str] = Field(
        default_factory=list,
        description="Replaces `saxutil` in the Jobs that publish models, such as [sliceworks, gateway, saxutil].",
    )
    shell: bool = Field(default=True, description="Run a pod with saxutil.")
    publish: bool = Field(default=True, description="Publish the models with Jobs once the servers are ready.")
    models: Annotated[list[SaxModel], Field(min_length=1)]


class TritonModel(Model):
    """A model in the repository."""

    source: GcsUrl | None = Field(default=None, description="Copied into the repository before the servers start.")


class Triton(Spec):
    """NVIDIA Triton with a model repository."""

    repository: str = Field(
        pattern=r"^(gs:/)?/[^\s]+$", description="A folder in Cloud Storage, or a path in the image or a volume."
    )
    models: Annotated[list[TritonModel], Field(min_length=1)]
    load: Literal["named", "all"] = Field(
        default="named", description="What servers load at start: the models above, or all models of the repository."
    )
    copy_image: Image = "gcr.io/google.com/cloudsdktool/google-cloud-cli:573.0.0-slim"
    log_verbose: int = Field(default=0, ge=0, le=9)


class Loader(Spec):
    """A Job that downloads a checkpoint from Kaggle, converts it for MaxText and uploads it to the bucket."""

    model: str = Field(description="Name of the model at Kaggle, such as google/gemma/maxtext/7b-it/2.")
    kaggle_secret: Name = "kaggle-secret"
    image: Image = f"{_SAX}/inference-checkpoint:v0.2.4"


class JetStreamModel(Model):
    """The model of a JetStream server."""

    maxtext_name: str = Field(default="", description="MaxText's name of the model, such as gemma-7b; its name by default.")
    checkpoint: GcsUrl = Field(description="Folder of the parameters.")
    tokenizer: str = Field(description="For example assets/tokenizer.gemma.")


class JetStream(Spec):
    """JetStream: MaxEngine and an HTTP server. The project is archived; prefer vLLM."""

    model: JetStreamModel
    bucket: Bucket | None = Field(default=None, description="Bucket to which the loader uploads checkpoints.")
    loader: Loader | None = None
    http_image: Image = f"{_SAX}/jetstream-http:v0.2.2"
    per_device_batch_size: Positive = 4
    max_prefill_length: Positive = 1024
    max_target_length: Positive = 2048
    settings: dict[str, str] = Field(default_factory=dict, description="Settings of MaxText, which override derived ones.")


class VllmModel(Model):
    """The model of a vLLM server."""

    source: str = Field(description="A model of Hugging Face, or a folder gs://…")


class Vllm(Spec):
    """vLLM on TPUs or GPUs."""

    model: VllmModel
    token: SecretKeyRef | None = Field(default=None, description="Hugging Face token, for gated models.")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    quantization: Literal["", "int8", "fp8", "awq", "gptq"] = Field(default="", description="int8 and gptq require GPUs.")
    max_model_len: Positive | None = None
    max_num_seqs: Positive | None = None
    tensor_parallel: Positive | None = Field(
        default=None, description="Number of chips that share the model; all chips of the machine by default."
    )
    cache: Bucket | None = Field(default=None, description="Bucket that caches downloads between starts.")
