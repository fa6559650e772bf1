"""From allocated to the other layers of truth: what a card must offer, and what its meters will show.

*required* is the least a card must offer for the run to live: allocated, the fragmentation no flush gives back, the
context, the communicators and the workspaces. *reserved* and *device* are the meters: the caching allocator keeps what
it does not need while there is room, one pool a stream, bounded by the card.
"""

import numpy as np

from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.coefficients import (
    CUBLAS_HANDLES,
    CUBLAS_WORKSPACE_BYTES,
    CUBLAS_WORKSPACE_HOPPER_BYTES,
    HOPPER,
    Coefficients,
)
from vramgate.costmodel.job import CheckpointMode, Packing, ShardingImplementation, TrainingJob
from vramgate.costmodel.moments import Moment
from vramgate.costmodel.rest import shared_gradients
from vramgate.costmodel.step import Step
from vramgate.costmodel.terms import UpperTerms, scaled
from vramgate.units import Bytes, Count, largest

PER_MILLE = 1_000
STANDING = (Component.WEIGHTS, Component.OPTIMIZER_STATES, Component.MASTER_WEIGHTS)
"""Components that are allocated once; everything else comes and goes in a step."""
ON_SIDE_STREAMS = (Component.GATHERED_PARAMETERS, Component.GRADIENTS)
"""Components that FSDP 2 allocates on streams of their own, each with a pool."""
WANDERING = (Component.ACTIVATIONS, Component.LOGITS, Component.TEMPORARIES)
"""Components whose tensors change size with the rows. Activations that are all kept are many tensors below the size
the allocator will not split, and fit into each other's gaps."""
VARIES_IN_LENGTH = {"ms-swift": (1, 99), "unsloth": (9999, 0)}
"""Frameworks that feed rows of varying length up to a version: over-long samples dropped, none filled up."""


def upper_terms(step: Step, peak: Moment, coefficients: Coefficients) -> UpperTerms:
    """Return what lies above an allocated peak, before any factor of calibration."""
    job = step.job
    fraction = _fragmentation(job, coefficients)
    cached = largest(scaled(peak.bytes, fraction), _cached(step, peak, coefficients))
    nothing = 0 * cached
    varies = _varies_in_length(job)
    card = job.hardware.device
    return UpperTerms(
        fragmentation=fraction,
        workspaces=workspace_bytes(job),
        context=context_bytes(job, coefficients),
        communicators=communicators_bytes(job, coefficients),
        cache=nothing if varies else cached,
        varying_cache=cached if varies else nothing,
        side_pools=_pools(step, peak),
        usable=None if card is None else card.usable_bytes,
    )


def _fragmentation(job: TrainingJob, coefficients: Coefficients) -> float:
    if job.software.expandable_segments:
        return coefficients.fragmentation_fraction_expandable.value
    return coefficients.fragmentation_fraction.value


def _cached(step: Step, peak: Moment, coefficients: Coefficients) -> Bytes:
    """Return what the allocator's cache keeps beyond the peak of the main stream."""
    job = step.job
    if job.software.expandable_segments:
        return scaled(peak.bytes, coefficients.fragmentation_fraction_expandable.value)
    own = STANDING + (ON_SIDE_STREAMS if _has_side_streams(step) else ())
    transient = peak.bytes - sum(peak.components.get(component, 0) for component in own)
    if _varies_in_length(job):
        wanders, stands = _wandering(step, peak)
        grown: Bytes = wanders * _length_factor(step, coefficients) // PER_MILLE
        return largest(stands + grown - peak.bytes, 0 * peak.bytes)
    return scaled(transient, coefficients.cached_transient_fraction.value)


def _length_factor(step: Step, coefficients: Coefficients) -> Count:
    """Return how often the cache holds what comes and goes, in thousandths: more for short rows than for long ones."""
    floor = coefficients.variable_length_floor.value
    extra = coefficients.variable_length_extra.value
    scale = coefficients.variable_length_scale.value
    factor = floor + extra / (1.0 + (step.setting.sequence / scale) ** 1.5)
    thousandths = np.rint(factor * PER_MILLE).astype(np.int64)
    return int(thousandths) if np.ndim(thousandths) == 0 else thousandths


def _varies_in_length(job: TrainingJob) -> bool:
    last = VARIES_IN_LENGTH.get(job.software.framework)
    if last is None or job.sharding.implementation is ShardingImplementation.MEGATRON:
        return False
    stated = job.software.stated(job.software.framework)
    return job.packing is not Packing.PADDING_FREE and (stated is None or stated <= last)


def _wandering(step: Step, peak: Moment) -> tuple[Bytes, Bytes]:
    """Return the largest sum of tensors whose size follows the rows, and what stands beside it."""
    wanders: Bytes = 0
    stands: Bytes = peak.bytes
    keeps_all = step.job.checkpointing.mode is CheckpointMode.NONE
    wandering = WANDERING[1:] if keeps_all else WANDERING
    for moment in step.ledger.moments:
        if moment.phase in {Phase.LOAD, Phase.OPTIMIZER_STEP}:
            continue
        size = sum(moment.components.get(component, 0) for component in wandering)
        if size > wanders:
            wanders, stands = size, moment.bytes - size
    return wanders, stands


def _pools(step: Step, peak: Moment) -> Bytes:
    """Return the pools of FSDP's side streams: gathered units, and reduced gradients that outlive the step."""
    if not _has_side_streams(step):
        return 0 * peak.bytes
    gradients = shared_gradients(step.model, step.plan)
    there = peak.components.get(Component.GRADIENTS, 0)
    return largest(gradients - there, 0 * gradients) + step.model.outside_states.gathered


def _has_side_streams(step: Step) -> bool:
    return step.plan.implementation is ShardingImplementation.FSDP2 and step.plan.gathers


LOADS_KERNELS_LAZILY_SINCE = (1, 13)
"""From here on PyTorch lets CUDA load kernels when they are first used."""


def workspace_bytes(job: TrainingJob) -> int:
    """Return the bytes of cuBLAS workspaces, which the allocator counts but no tensor of the model owns."""
    card = job.hardware.device
    capability = card.compute_capability if card is not None else None
    nvidia = card is not None and card.vendor == "NVIDIA"
    if nvidia and capability is not None and capability >= HOPPER:
        return CUBLAS_HANDLES * CUBLAS_WORKSPACE_HOPPER_BYTES
    return CUBLAS_HANDLES * CUBLAS_WORKSPACE_BYTES


def context_bytes(job: TrainingJob, coefficients: Coefficients) -> int:
    """Return what the driver takes for the process before it does anything."""
    lazy = job.software.torch >= LOADS_KERNELS_LAZILY_SINCE
    context = coefficients.context_bytes if lazy else coefficients.eager_context_bytes
    return round(context.value)


def communicators_bytes(job: TrainingJob, coefficients: Coefficients) -> Bytes:
    """Return what NCCL takes outside PyTorch's allocator."""
    first = round(coefficients.nccl_first_communicator_bytes.value)
    further = round(coefficients.nccl_communicator_bytes.value)
    communicators = communicator_count(job)
    some = communicators > 0
    return some * first + largest(communicators - 1, 0 * communicators) * further


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
    return sum(1 * (axis > 1) for axis in axes)
