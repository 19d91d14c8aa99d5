"""The reference of the ModelService document."""

from __future__ import annotations

from document_fields import page
from sliceworks.specs import gateway, model, training
from sliceworks.specs.serving import ModelServiceSpec, parts

_OPENING = """\
# ModelService

One document for models, the engine that serves them, the machines it runs on and the gateway in front. This page is made from
the program by `make fix`; [serve a model](../how-to/serve-a-model.md) shows it at work. A field that is not known is an error
that names the closest one.

```yaml
apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {name: llama3, namespace: models}
spec: {}    # as below
```

## Where the reference guides' parameters have gone

| Saxml on GKE, `parameters.env` | field |
| --- | --- |
| `GSBUCKET` | `saxml.adminBucket` |
| `KSA` | `identity.serviceAccount` |
| `SAX_CELL` | `saxml.cell` |
| `SAX_ROOT` | `saxml.root`; `gs://ADMIN_BUCKET/sax-root` when left out |
| `TPU_CHIP` | follows from `accelerator`; `saxml.platformChip` says otherwise |
| `TPU_TYPE` | `accelerator.accelerator`, or `accelerator.type` for everything at once |
| `TPU_TOPOLOGY` | `accelerator.topology` |
| `CHIPS_PER_NODE` | `accelerator.chipsPerHost`; follows from the topology when left out |
| `GCS_BASE_CHECKPOINT_PATH` | `saxml.models[].convert.source` |
| `GCS_PAX_CHECKPOINT_PATH` | `saxml.models[].checkpoint` |
| `CONV_MODULE`, `ARGS` | `saxml.models[].convert.module` and `args` |
| the namespace of `kustomize edit` | `metadata.namespace`, or `-n` |
| Skaffold's `--default-repo` | the Environment's `registry`, whose images `gateway.image` and `convert.image` name |

| Triton on GKE, variables | field |
| --- | --- |
| `GCS_BUCKET_NAME` | `triton.repository` |
| `TRITON_SA_NAME` | `identity.googleServiceAccount` and `identity.serviceAccount` |
| `TRITON_NAMESPACE` | `metadata.namespace`, or `-n` |
| `MACHINE_TYPE`, `ACCELERATOR_TYPE`, `ACCELERATOR_COUNT` | `accelerator.machineType`, `accelerator` and `count` |
| `PROJECT_ID`, `REGION`, `ZONE`, `NETWORK_NAME`, `SUBNET_NAME`, `GKE_CLUSTER_NAME` | the [Environment](environment-variables.md) |
"""
_WORDS = [
    (parts.Image, "image with a tag or a digest"),
    (parts.Place, "folder of a bucket"),
    (parts.Bucket, "bucket name"),
    (parts.ModelName, "name"),
    (parts.Percent, "percent"),
    (gateway.Positive, "number, 1 or more"),
    (gateway.Natural, "number, 0 or more"),
    (gateway.Bytes, "size, such as `64Mi`"),
    (gateway.Digest, "SHA-256"),
    (gateway.Share, "share between 0 and 1"),
    (model.Name, "name"),
    (model.Seconds, "length of time, such as `90s`"),
    (training.Amount, "amount, such as `500m` or `2Gi`"),
    (training.Variable, "variable"),
]


def serving() -> str:
    """The page."""
    return page(_OPENING, ModelServiceSpec, _WORDS)
