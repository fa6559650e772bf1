"""From allocated to the other layers of truth: what a card must offer, and what its meters will show.

*required* is the least a card must offer for the run to live: allocated, the fragmentation no flush gives back, the
context, the communicators and the workspaces. *reserved* and *device* are the meters: the caching allocator keeps what
it does not need while there is room, bounded by the card.
"""

from dataclasses import dataclass

import numpy as np

from vramgate.costmodel.coefficients import (
    CUBLAS_HANDLES,
    CUBLAS_WORKSPACE_BYTES,
    CUBLAS_WORKSPACE_HOPPER_BYTES,
    HOPPER,
    Coefficients,
)
from vramgate.costmodel.job import TrainingJob
from vramgate.units import Bytes, Count, largest, smallest


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLayers:
    """One peak, by layer."""

    required: Bytes
    reserved: Bytes
    device: Bytes


def memory_layers(job: TrainingJob, allocated: Bytes, coefficients: Coefficients) -> MemoryLayers:
    """Return the layers above an allocated peak."""
    fragmentation = _fraction(allocated, _fragmentation(job, coefficients))
    outside = outside_allocator_bytes(job, coefficients)
    workspaces = workspace_bytes(job)
    required = allocated + fragmentation + workspaces + outside
    sharded = job.hardware.devices
    cached = _cached(allocated, sharded, coefficients)
    reserved = allocated + fragmentation + workspaces + cached
    device = reserved + outside
    card = job.hardware.device
    if card is not None:
        device = largest(smallest(device, card.usable_bytes), required)
        reserved = largest(smallest(reserved, card.usable_bytes - outside), required - outside)
    return MemoryLayers(required=required, reserved=reserved, device=device)


def _fragmentation(job: TrainingJob, coefficients: Coefficients) -> float:
    if job.software.expandable_segments:
        return coefficients.fragmentation_fraction_expandable.value
    return coefficients.fragmentation_fraction.value


def _cached(allocated: Bytes, devices: Count, coefficients: Coefficients) -> Bytes:
    alone = _fraction(allocated, coefficients.cached_fraction.value)
    shared = _fraction(allocated, coefficients.cached_fraction_sharded.value)
    several = devices > 1
    return several * shared + (1 - several) * alone


def _fraction(size: Bytes, fraction: float) -> Bytes:
    """Return a fraction of bytes in whole bytes; the fraction is read to a millionth."""
    return size * round(fraction * 1_000_000) // 1_000_000


def workspace_bytes(job: TrainingJob) -> int:
    """Return the bytes of cuBLAS workspaces, which the allocator counts but no tensor of the model owns."""
    card = job.hardware.device
    if card is not None and card.vendor != "NVIDIA":
        return CUBLAS_HANDLES * CUBLAS_WORKSPACE_BYTES
    capability = card.compute_capability if card is not None else None
    if capability is not None and capability >= HOPPER:
        return CUBLAS_HANDLES * CUBLAS_WORKSPACE_HOPPER_BYTES
    return CUBLAS_HANDLES * CUBLAS_WORKSPACE_BYTES


def outside_allocator_bytes(job: TrainingJob, coefficients: Coefficients) -> Bytes:
    """Return what the driver and NCCL take outside PyTorch's allocator."""
    context = round(coefficients.context_bytes.value)
    first = round(coefficients.nccl_first_communicator_bytes.value)
    further = round(coefficients.nccl_communicator_bytes.value)
    communicators = communicator_count(job)
    some = communicators > 0
    return context + some * first + largest(communicators - 1, 0 * communicators) * further


def communicator_count(job: TrainingJob) -> Count:
    """Return the NCCL communicators a rank is part of: one a parallel axis with more than one rank."""
    layout = job.parallelism
    model = layout.tensor_parallel_size * layout.pipeline_parallel_size
    data = job.hardware.devices // (model * layout.context_parallel_size)
    axes = (
        data,
        layout.tensor_parallel_size,
        layout.pipeline_parallel_size,
        layout.context_parallel_size,
        layout.expert_parallel_size,
    )
    return sum(np.int64(1) * (axis > 1) if not isinstance(axis, int) else int(axis > 1) for axis in axes)
