"""RankModel: the model as one rank holds it: weights by layer, and what they, their gradients and states take."""

from dataclasses import dataclass

from vramgate.costmodel.architecture import Block, ModelArchitecture, Stack
from vramgate.costmodel.components.optimizer_states import Trained, state_bytes
from vramgate.costmodel.job import MethodKind, TrainingJob
from vramgate.costmodel.weights import Weight, held_weights
from vramgate.units import Bytes, Count, largest

FP32_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRun:
    """Neighbouring layers of one kind, trained alike."""

    stack: Stack
    block: Block
    weights: dict[str, Weight]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes of parameters at rest on one rank, before any sharding."""

    weights: Bytes
    """Weights as stored: quantised, cast, adapters and saved copies included."""
    gradients: Bytes
    """Gradients of everything that trains, once."""
    optimizer: Bytes
    master: Bytes
    """fp32 copies of 16-bit weights that train."""
    one_state: Bytes
    """One full-size optimizer state of everything that trains."""
    largest_state: Bytes
    """One full-size state of the largest tensor that trains."""
    parameters: Count
    trainable: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RankModel:
    """The layers in order, and what is outside them."""

    architecture: ModelArchitecture
    runs: tuple[LayerRun, ...]
    outside: dict[str, Weight]


def rank_model(job: TrainingJob) -> RankModel:
    """Return the model of a job under its method and precision."""
    architecture = job.architecture
    runs: list[LayerRun] = []
    for stack in architecture.stacks:
        runs.extend(_runs(stack, job, last=stack is architecture.decoder))
    outside = held_weights(architecture.outside, job, in_block=False)
    return RankModel(architecture=architecture, runs=tuple(runs), outside=outside)


def _runs(stack: Stack, job: TrainingJob, *, last: bool) -> list[LayerRun]:
    """Group a stack's layers into runs of one kind; partial freezing trains the last layers of the last stack."""
    frozen_layers = 0
    if job.method.kind is MethodKind.FREEZE:
        trainable = job.method.trainable_layers if last else 0
        frozen_layers = max(0, len(stack.layers) - trainable)
    held: dict[tuple[int, bool], dict[str, Weight]] = {}
    runs: list[LayerRun] = []
    keys = [(kind, index >= frozen_layers) for index, kind in enumerate(stack.layers)]
    start = 0
    for end in range(1, len(keys) + 1):
        if end < len(keys) and keys[end] == keys[start]:
            continue
        kind, trains = keys[start]
        block = stack.blocks[kind]
        if keys[start] not in held:
            held[keys[start]] = held_weights(
                block.modules, job, in_block=True, trainable_layer=trains
            )
        runs.append(
            LayerRun(stack=stack, block=block, weights=held[keys[start]], count=end - start)
        )
        start = end
    return runs


def weight_states(weights: dict[str, Weight], job: TrainingJob) -> States:
    """Return what a set of weights takes at rest."""
    stored: Bytes = 0
    gradients: Bytes = 0
    optimizer: Bytes = 0
    master: Bytes = 0
    one_state: Bytes = 0
    largest_state: Bytes = 0
    parameters: Count = 0
    trainable: Count = 0
    masters = job.precision.master_weights
    for weight in weights.values():
        parameters += weight.parameters
        stored += weight.stored_bytes + weight.saved_copy_bytes
        if weight.adapter is not None:
            adapter = weight.adapter
            stored += adapter.a.stored_bytes + adapter.b.stored_bytes
            stored += adapter.magnitude_elements * adapter.a.width
        for trained in trained_tensors(weight):
            width = state_width(job, trained.width)
            trainable += trained.elements
            gradients += trained.elements * trained.width
            optimizer += state_bytes(job.optimizer, trained, state_width=width)
            one_state += trained.elements * width
            largest_state = largest(largest_state, trained.elements * width)
            if masters and trained.width < FP32_BYTES:
                master += trained.elements * FP32_BYTES
    return States(
        weights=stored,
        gradients=gradients,
        optimizer=optimizer,
        master=master,
        one_state=one_state,
        largest_state=largest_state,
        parameters=parameters,
        trainable=trainable,
    )


def state_width(job: TrainingJob, width: int) -> int:
    """Return bytes of an element of a full-size state for a parameter of ``width`` bytes an element.

    PyTorch's optimizers make states in the parameter's format; beside a master copy they follow the copy.
    """
    if job.precision.master_weights and width < FP32_BYTES:
        return job.precision.optimizer_states.bytes
    return width


def trained_tensors(weight: Weight) -> list[Trained]:
    """Return the tensors of one module that train, with their shapes."""
    trained: list[Trained] = []
    if weight.trainable:
        copies = weight.module.copies
        trained.append(
            Trained(
                elements=weight.elements,
                rows=weight.out_features if weight.module.is_linear or copies > 1 else 1,
                columns=weight.in_features,
                width=weight.width,
                embedding=weight.module.part in {"embedding", "head"},
            )
        )
        if weight.has_bias:
            trained.append(
                Trained(
                    elements=weight.bias_elements,
                    rows=1,
                    columns=weight.bias_elements,
                    width=weight.width,
                )
            )
    if weight.adapter is not None:
        adapter = weight.adapter
        for side in (adapter.a, adapter.b):
            trained.append(
                Trained(
                    elements=side.elements,
                    rows=side.out_features,
                    columns=side.in_features,
                    width=side.width,
                )
            )
        if adapter.has_magnitude:
            size = adapter.magnitude_elements
            trained.append(Trained(elements=size, rows=1, columns=size, width=adapter.a.width))
    return trained
