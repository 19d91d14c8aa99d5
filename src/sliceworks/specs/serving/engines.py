"""The engines, and the models that each of them serves."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sliceworks.specs.gateway import Positive
from sliceworks.specs.model import Name, Spec
from sliceworks.specs.serving.parts import Bucket, Image, ModelName, Place, Pool, Token
from sliceworks.specs.training import Amount

ENGINES = ("saxml", "triton", "jetstream", "vllm")
_SAX = "us-docker.pkg.dev/cloud-tpu-images/inference"


class Model(Spec):
    """What a model of any engine has."""

    name: ModelName = Field(description="What callers call it.")
    memory: Amount | None = Field(default=None, description="What its weights take of the accelerator; reckoned where it is known.")


class Conversion(Spec):
    """A Job that downloads a checkpoint, converts it, marks it as whole and uploads it. Any failure fails it."""

    source: Place = Field(description="The checkpoint as its makers publish it.")
    module: str = Field(default="saxml.tools.convert_llama_ckpt", description="The Python module that converts.")
    args: list[str] = Field(default_factory=list, description="Such as --model-size=7b.")
    quantize: Literal["gptj", "gemma2b", "gemma7b", "llama2-70b-weight-linear-only-int8"] | None = Field(
        default=None, description="Sax's plan for classes that load weights in eight bits; gptj for Llama 2 of 7B and 13B."
    )
    image: Image = Field(description="The converter of the environment's registry.")
    pool: Pool = Pool()
    cpu: Amount = "8"
    memory: Amount = "112G"
    disk: Amount = "100Gi"


class SaxModel(Model):
    """A model of a Sax cell."""

    model_class: str = Field(
        alias="class",
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$",
        description="Such as LLaMA7BFP16TPUv5e, or with its whole module.",
    )
    checkpoint: Place | Literal["None"] = Field(description="A converted checkpoint; None for random weights.")
    replicas: Positive | None = Field(default=None, description="Servers that load it; all of them when left out.")
    convert: Conversion | None = None


class SaxAdmin(Spec):
    """The admin server, which knows what is published where."""

    pool: Pool = Pool()
    cpu: Amount = "2"
    memory: Amount = "4Gi"


class Saxml(Spec):
    """Saxml: an admin server, model servers with a slice each, and a shell with saxutil."""

    cell: Annotated[str, Field(pattern=r"^/sax/[A-Za-z0-9_-]+$")] = "/sax/test"
    admin_bucket: Bucket = Field(description="Where the cell keeps what it knows.")
    root: Place | None = Field(default=None, description="`gs://ADMIN_BUCKET/sax-root` when left out.")
    platform_chip: str = Field(default="", description="What Sax calls the chip; from the catalogue when left out.")
    admin: SaxAdmin = SaxAdmin()
    admin_image: Image = f"{_SAX}/sax-admin-server:v1.1.0"
    util_image: Image = f"{_SAX}/sax-util:v1.1.0"
    shell: bool = Field(default=True, description="A pod with saxutil.")
    publish: bool = Field(default=True, description="Jobs publish the models once the servers are there.")
    models: Annotated[list[SaxModel], Field(min_length=1)]


class TritonModel(Model):
    """A model of the repository."""

    source: Place | None = Field(default=None, description="Copied from there into the repository before the servers start.")


class Triton(Spec):
    """NVIDIA Triton with a model repository."""

    repository: str = Field(
        pattern=r"^(gs:/)?/[^\s]+$", description="A folder of a bucket, or a path that the image or a volume has."
    )
    models: Annotated[list[TritonModel], Field(min_length=1)]
    load: Literal["named", "all"] = Field(
        default="named", description="What a server loads when it starts: the models above, or all of the repository."
    )
    copy_image: Image = "gcr.io/google.com/cloudsdktool/google-cloud-cli:573.0.0-slim"
    log_verbose: int = Field(default=0, ge=0, le=9)


class Loader(Spec):
    """A Job that downloads a checkpoint from Kaggle, converts it for MaxText and keeps it in the bucket."""

    model: str = Field(description="Kaggle's name of it, such as google/gemma/maxtext/7b-it/2.")
    kaggle_secret: Name = "kaggle-secret"
    image: Image = f"{_SAX}/inference-checkpoint:v0.2.4"


class JetStreamModel(Model):
    """The model."""

    maxtext_name: str = Field(default="", description="What MaxText calls it, such as gemma-7b; its own name when left out.")
    checkpoint: Place = Field(description="The folder with its parameters.")
    tokenizer: str = Field(description="Such as assets/tokenizer.gemma.")


class JetStream(Spec):
    """JetStream: MaxEngine, and an HTTP server beside it. Archived by its makers; vLLM has taken its place."""

    model: JetStreamModel
    bucket: Bucket | None = Field(default=None, description="Where the loader puts checkpoints.")
    loader: Loader | None = None
    http_image: Image = f"{_SAX}/jetstream-http:v0.2.2"
    per_device_batch_size: Positive = 4
    max_prefill_length: Positive = 1024
    max_target_length: Positive = 2048
    settings: dict[str, str] = Field(default_factory=dict, description="MaxText's own settings, over what follows from the others.")


class VllmModel(Model):
    """The model."""

    source: str = Field(description="Its name at Hugging Face, or a folder gs://…")


class Vllm(Spec):
    """vLLM, on TPUs or GPUs."""

    model: VllmModel
    token: Token | None = Field(default=None, description="Of Hugging Face, for models behind a licence.")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    quantization: Literal["", "int8", "fp8", "awq", "gptq"] = Field(default="", description="int8 and gptq on GPUs alone.")
    max_model_len: Positive | None = None
    max_num_seqs: Positive | None = None
    tensor_parallel: Positive | None = Field(
        default=None, description="Chips that share the model; all of the machine's when left out."
    )
    cache: Bucket | None = Field(default=None, description="A bucket that keeps what was downloaded, for the next start.")
