"""The protobuf messages of Sax: those of the admin server and of language models."""

from __future__ import annotations

from sliceworks.base.protobuf import MessagePackage

ADMIN = MessagePackage(
    "sax",
    {
        "Location": "location:string",
        "Model": "model_id:string model_path:string checkpoint_path:string requested_num_replicas:enum",
        "PublishedModel": "model:Model modelet_addresses:*string",
        "PublishRequest": "- model:Model",
        "UpdateRequest": "model:Model",
        "UnpublishRequest": "model_id:string",
        "ListRequest": "model_id:string",
        "ListResponse": "published_models:*PublishedModel",
        "WatchLocRequest": "model_id:string seqno:enum admin_server_id:string",
        "Mutation": "addition:string deletion:string",
        "WatchResult": "next_seqno:enum has_fullset:bool values:*string changelog:*Mutation",
        "WatchLocResponse": "result:WatchResult admin_server_id:string",
        "Empty": "",
    },
    choices=("Mutation",),
)
LANGUAGE = MessagePackage(
    "sax.server.lm",
    {
        "ExtraInputs": "items:@float",
        "ScoreRequest": "model_key:string suffix:*string prefix:string extra_inputs:ExtraInputs",
        "ScoreResponse": "logp:*double",
        "GenerateRequest": "model_key:string text:string extra_inputs:ExtraInputs",
        "DecodedText": "text:string score:double",
        "GenerateResponse": "texts:*DecodedText",
        "GenerateStreamItem": "text:string prefix_len:enum score:double",
        "GenerateStreamResponse": "items:*GenerateStreamItem",
        "EmbedRequest": "model_key:string text:string extra_inputs:ExtraInputs",
        "EmbedResponse": "embedding:*double",
    },
)
