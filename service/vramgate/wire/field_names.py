"""What an unknown field was probably meant to be: misspelt, misplaced, or another tool's word."""

import difflib
import typing
from collections.abc import Iterator
from functools import cache

from pydantic import BaseModel

_LIKENESS = 0.75

# Other tools' words for our fields. They are not accepted, since a wrong guess would be silent.
_FOREIGN = {
    "attn_implementation": "attention",
    "batch_size": "micro_batch_size",
    "bs": "micro_batch_size",
    "cutoff_len": "sequence_length",
    "deepspeed": "sharding",
    "dtype": "precision",
    "fsdp": "sharding",
    "gpu": "accelerator",
    "gpu_type": "accelerator",
    "gpus": "devices",
    "gradient_checkpointing": "activation_checkpointing",
    "lora_dropout": "dropout",
    "lora_r": "rank",
    "lora_rank": "rank",
    "max_length": "sequence_length",
    "max_seq_length": "sequence_length",
    "model_name": "model",
    "model_name_or_path": "model",
    "num_gpus": "devices",
    "optim": "optimizer",
    "per_device_train_batch_size": "micro_batch_size",
    "r": "rank",
    "recompute": "activation_checkpointing",
    "seq_len": "sequence_length",
    "seq_length": "sequence_length",
    "torch_dtype": "precision",
    "tp": "tensor_parallel_size",
    "world_size": "devices",
}


def meant(name: str, shape: type[BaseModel]) -> str | None:
    """Return the dotted path of the field of ``shape`` that an unknown name was meant to be.

    >>> from vramgate.wire.estimates import EstimateRequest
    >>> meant("zero_stage", EstimateRequest), meant("sequence_lenght", EstimateRequest)
    ('job.sharding.zero_stage', 'job.sequence_length')
    """
    paths = _paths(shape)
    if name in paths:
        return paths[name]
    ours = _FOREIGN.get(name.lower())
    if ours in paths:
        return paths[ours]
    near = difflib.get_close_matches(name, paths, n=1, cutoff=_LIKENESS)
    return paths[near[0]] if near else None


@cache
def _paths(shape: type[BaseModel]) -> dict[str, str]:
    """Return the path of each field by its name; where a name is used twice, the first."""
    paths: dict[str, str] = {}
    for path in _walk(shape):
        paths.setdefault(path.rpartition(".")[2], path)
    return paths


def _walk(shape: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted paths of all fields, those nearer to the top first."""
    for name in shape.model_fields:
        yield f"{prefix}{name}"
    for name, field in shape.model_fields.items():
        for inner in _shapes_in(field.annotation):
            yield from _walk(inner, f"{prefix}{name}.")


def _shapes_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _shapes_in(argument)
