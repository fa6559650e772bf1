"""States: what parameters, their gradients and their optimizer states take at rest, before data-parallel sharding."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vramgate.costmodel.architecture import ModuleKind, Part
from vramgate.costmodel.components.optimizer_states import Trained, full_states, state_bytes
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.weights import STACKED_EXPERTS_SINCE, Weight

FP32_BYTES = 4
TABLES = (Part.EMBEDDING, Part.HEAD)
"""Parts whose matrices have a row for each word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes of parameters at rest, before data-parallel sharding."""

    weights: int = 0
    """Weights as stored, adapters and saved copies included, without ``replicated``."""
    replicated: int = 0
    """What sharding leaves on every rank: scales of quantised weights."""
    gradients: int = 0
    """Gradients of everything that trains, at rest."""
    optimizer: int = 0
    master: int = 0
    """fp32 copies of 16-bit weights that train."""
    one_state: int = 0
    """One full-size optimizer state of everything that trains."""
    largest_state: int = 0
    """One full-size state of the largest tensor that trains."""
    largest_update: int = 0
    """The most a loop over the tensors holds: two full-size states of one, and one of the tensor before it."""
    gathered: int = 0
    """The weights as a framework gathers them for use."""
    parameters: int = 0
    trainable: int = 0


NO_STATES = States()


def together(parts: Sequence[tuple[int, States]]) -> States:
    """Return the states of layers of several kinds, given as how many there are of each kind and the states of one."""
    return States(
        weights=sum(count * one.weights for count, one in parts),
        replicated=sum(count * one.replicated for count, one in parts),
        gradients=sum(count * one.gradients for count, one in parts),
        optimizer=sum(count * one.optimizer for count, one in parts),
        master=sum(count * one.master for count, one in parts),
        one_state=sum(count * one.one_state for count, one in parts),
        largest_state=max(one.largest_state for _, one in parts),
        largest_update=max(one.largest_update for _, one in parts),
        gathered=sum(count * one.gathered for count, one in parts),
        parameters=sum(count * one.parameters for count, one in parts),
        trainable=sum(count * one.trainable for count, one in parts),
    )


def weight_states(weights: Iterable[Weight], job: TrainingJob) -> States:
    """Return what a set of weights takes at rest."""
    held = [(weight, trained_tensors(weight)) for weight in weights]
    trained = [tensor for _, tensors in held for tensor in tensors]
    elements: dict[int, int] = defaultdict(int)
    for tensor in trained:
        elements[tensor.width] += tensor.elements
    in_state = {width: state_width(job, width) for width in elements}
    sizes = _state_sizes(held, job, in_state)
    one_state = sum(in_state[width] * elements[width] for width in elements)
    return States(
        weights=sum([_stored_bytes(weight) for weight, _ in held]),
        replicated=sum([weight.replicated_bytes for weight, _ in held]),
        gradients=sum(gradient_width(job, width) * elements[width] for width in elements),
        optimizer=_optimizer_bytes(trained, job, in_state, one_state),
        master=_master_bytes(elements, job),
        one_state=one_state,
        largest_state=max(sizes, default=0),
        largest_update=max(
            [2 * size + before for before, size in pairwise((0, *sizes))], default=0
        ),
        gathered=sum([weight.gathered_bytes for weight, _ in held]),
        parameters=sum([weight.parameters for weight, _ in held]),
        trainable=sum(elements.values()),
    )


def _optimizer_bytes(
    trained: list[Trained], job: TrainingJob, in_state: dict[int, int], one_state: int
) -> int:
    """Return the bytes of all states of what trains; ``in_state`` as in ``_state_sizes``."""
    times = full_states(job.optimizer)
    if times is not None:
        return times * one_state
    return sum(
        [state_bytes(job.optimizer, one, state_width=in_state[one.width]) for one in trained]
    )


def _stored_bytes(weight: Weight) -> int:
    """Return the bytes of a weight, its saved copy and its adapter, without what sharding leaves on every rank."""
    stored = weight.stored_bytes + weight.saved_copy_bytes - weight.replicated_bytes
    adapter = weight.adapter
    if adapter is None:
        return stored
    magnitude = adapter.magnitude_elements * adapter.a.rest_width
    return stored + adapter.a.stored_bytes + adapter.b.stored_bytes + magnitude


def _master_bytes(elements: dict[int, int], job: TrainingJob) -> int:
    """Return the bytes of fp32 copies; ``elements``: what trains, by bytes of an element at rest."""
    if not job.precision.master_weights:
        return 0
    return sum(FP32_BYTES * count for width, count in elements.items() if width < FP32_BYTES)


def _state_sizes(
    held: list[tuple[Weight, list[Trained]]], job: TrainingJob, in_state: dict[int, int]
) -> list[int]:
    """Return the bytes of one full-size state of each tensor that trains, in order.

    ``in_state``: bytes of an element of a state, by those of an element at rest.

    transformers 5 holds the experts of a layer in two tensors, the first of them gate and up together; before, each
    expert has its own.
    """
    stacked = job.software.transformers >= STACKED_EXPERTS_SINCE
    sizes: list[int] = []
    for weight, tensors in held:
        module = weight.module
        listed = module.kind is ModuleKind.EXPERTS and not stacked
        for trained in tensors:
            size = trained.elements * in_state[trained.width]
            if listed:
                size //= module.copies
            elif module.role == "expert_up" and weight.adapter is None and sizes:
                size += sizes.pop()
            sizes.append(size)
    return sizes


def state_width(job: TrainingJob, width: int) -> int:
    """Return bytes of an element of a full-size state for a parameter of ``width`` bytes an element at rest.

    PyTorch's optimizers make states in the parameter's format; beside a master copy they follow the copy.
    """
    if job.precision.master_weights and width < FP32_BYTES:
        return job.precision.optimizer_states.bytes
    return width


def gradient_width(job: TrainingJob, width: int) -> int:
    """Return bytes of an element of a gradient at rest: wider than the weight only beside a master copy."""
    if job.precision.master_weights and width < FP32_BYTES:
        return job.precision.gradients.bytes
    return width


def trained_tensors(weight: Weight) -> list[Trained]:
    """Return the tensors of one module that train, with their shapes and widths at rest."""
    trained: list[Trained] = []
    if weight.trainable:
        module, width = weight.module, weight.rest_width
        table = module.part in TABLES
        matrix = module.is_linear or module.part is Part.EMBEDDING
        rows = weight.out_features if matrix else 1
        trained.append(Trained(weight.elements, rows, weight.in_features, width, table))
        if module.bias:
            trained.append(_vector(weight.bias_elements, width))
    if weight.adapter is not None:
        adapter = weight.adapter
        trained.extend(
            Trained(side.elements, side.out_features, side.in_features, side.rest_width)
            for side in (adapter.a, adapter.b)
        )
        if adapter.has_magnitude:
            trained.append(_vector(adapter.magnitude_elements, adapter.a.rest_width))
    return trained


def _vector(elements: int, width: int) -> Trained:
    return Trained(elements, 1, elements, width)
