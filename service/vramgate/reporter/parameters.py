"""The parameters of a live model, counted: tied storage once, sharded ones in full."""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TextIO

_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeCount:
    """The share of one number format."""

    parameters: int = 0
    trainable_parameters: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """Parameters of the whole model, over all of its shards."""

    parameters: int
    trainable_parameters: int
    bytes: int
    """What the parameters take, unsharded, in the number formats they are stored in."""
    trainable_bytes: int
    by_dtype: Mapping[str, DtypeCount]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    dtype: str
    parameters: int
    bytes: int
    is_trainable: bool


def count_parameters(model: Any) -> ParameterCount:
    """Return the parameters of a ``torch.nn.Module``, each storage once.

    Tied weights count once. DeepSpeed ZeRO-3 partitions, FSDP flat parameters and DTensors count
    with their full size, not this rank's share; 4-bit weights by the shape they stand for, with
    the bytes they take (without the quantization constants). A plain tensor-parallel shard
    (Megatron) counts as this rank holds it: nothing on it says more. Buffers do not count.
    """
    by_dtype: dict[str, DtypeCount] = {}
    trainable_bytes = 0
    for one in _counted(model):
        before = by_dtype.get(one.dtype, DtypeCount())
        by_dtype[one.dtype] = DtypeCount(
            parameters=before.parameters + one.parameters,
            trainable_parameters=before.trainable_parameters + one.parameters * one.is_trainable,
            bytes=before.bytes + one.bytes,
        )
        trainable_bytes += one.bytes * one.is_trainable
    shares = by_dtype.values()
    return ParameterCount(
        parameters=sum(share.parameters for share in shares),
        trainable_parameters=sum(share.trainable_parameters for share in shares),
        bytes=sum(share.bytes for share in shares),
        trainable_bytes=trainable_bytes,
        by_dtype=MappingProxyType(dict(sorted(by_dtype.items()))),
    )


def print_parameters(model: Any, file: TextIO | None = None) -> ParameterCount:
    """Print the count of a model's parameters, and return it."""
    count = count_parameters(model)
    print("\n".join(count_lines(count)), file=file or sys.stdout)
    return count


def count_lines(count: ParameterCount) -> list[str]:
    r"""Return a count as lines for people.

    >>> share = DtypeCount(parameters=3, trainable_parameters=1, bytes=6)
    >>> print("\n".join(count_lines(ParameterCount(parameters=3, trainable_parameters=1, bytes=6,
    ...     trainable_bytes=2, by_dtype={"bfloat16": share}))))
    parameters            3  (6 bytes, 0.00 GiB)
    trainable             1  (2 bytes, 0.00 GiB)
      bfloat16            3  (6 bytes, 0.00 GiB), 1 trainable
    """

    def line(name: str, parameters: int, size: int) -> str:
        return f"{name:<12}{parameters:>11,}  ({size:,} bytes, {size / _GIB:.2f} GiB)"

    lines = [
        line("parameters", count.parameters, count.bytes),
        line("trainable", count.trainable_parameters, count.trainable_bytes),
    ]
    lines += [
        f"{line(f'  {dtype}', share.parameters, share.bytes)}, {share.trainable_parameters:,} trainable"
        for dtype, share in count.by_dtype.items()
    ]
    return lines


def _counted(model: Any) -> Iterator[_Counted]:
    flat = _flat_parameters(model)
    covered = {id(view) for parameter in flat for view in _views(parameter)}
    covered |= {id(parameter) for parameter in flat}
    for parameter in flat:
        yield from _flat(parameter)
    seen: set[object] = set()
    for parameter in model.parameters():
        key = _storage_key(parameter)
        if id(parameter) not in covered and key not in seen:
            seen.add(key)
            yield _one(parameter)


def _flat_parameters(model: Any) -> list[Any]:
    """Return the flat parameters of FSDP's first version: many parameters in one sharded tensor."""
    found: dict[int, Any] = {}
    for module in model.modules():
        parameter = getattr(module, "_flat_param", None)
        if parameter is not None and hasattr(parameter, "_shapes"):
            found[id(parameter)] = parameter
    return list(found.values())


def _views(flat_parameter: Any) -> Iterable[Any]:
    views = getattr(flat_parameter, "_params", None) or ()
    shared = getattr(flat_parameter, "_shared_params", None) or ()
    return [*views, *shared]


def _flat(parameter: Any) -> Iterator[_Counted]:
    shapes = list(parameter._shapes)  # noqa: SLF001 FSDP publishes no other way
    # With use_orig_params one flat parameter may hold frozen and trained ones; its views say which.
    views = getattr(parameter, "_params", None) or [parameter] * len(shapes)
    for shape, view in zip(shapes, views, strict=True):
        numel = math.prod(shape)
        yield _Counted(
            dtype=_dtype_name(parameter.dtype),
            parameters=numel,
            bytes=numel * parameter.element_size(),
            is_trainable=bool(view.requires_grad),
        )


def _one(parameter: Any) -> _Counted:
    quantized = getattr(parameter, "quant_state", None)
    shape = getattr(quantized, "shape", None)
    numel = int(parameter.numel())
    size = numel * int(parameter.element_size())
    dtype = _dtype_name(parameter.dtype)
    if shape is not None:
        dtype = str(getattr(quantized, "quant_type", None) or dtype)
        numel = math.prod(shape)
    elif hasattr(parameter, "ds_numel"):
        numel = int(parameter.ds_numel)
        size = numel * int(parameter.element_size())
    return _Counted(
        dtype=dtype, parameters=numel, bytes=size, is_trainable=bool(parameter.requires_grad)
    )


def _storage_key(parameter: Any) -> object:
    """Return what two parameters share exactly when they are one piece of memory.

    A partition of ZeRO-3 and a parameter without elements have no memory of their own to compare.
    """
    if hasattr(parameter, "ds_numel") or parameter.numel() == 0:
        return id(parameter)
    local = getattr(parameter, "_local_tensor", parameter)
    if local.numel() == 0:
        return id(parameter)
    try:
        storage = local.untyped_storage()
        # On the meta device every address is 0; the storage object itself tells them apart.
        address = storage.data_ptr() or storage._cdata  # noqa: SLF001 no public identity
    except (RuntimeError, NotImplementedError, AttributeError):
        return id(parameter)
    place = (str(local.device), address, local.storage_offset())
    return (*place, local.numel(), str(local.dtype))


def _dtype_name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")
