"""RankModel: the model as one rank holds it: weights by layer, and what they, their gradients and states take."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from vramgate.costmodel.architecture import Block, Module, ModuleKind, Part, Stack, linear
from vramgate.costmodel.components.optimizer_states import Trained, state_bytes
from vramgate.costmodel.job import MethodKind, Task, TrainingJob
from vramgate.costmodel.parallelism import (
    EXPERT_ROLES,
    PipelineStage,
    block_share,
    expert_tensor_ranks,
    module_share,
)
from vramgate.costmodel.weights import STACKED_EXPERTS_SINCE, Weight, held_weights

FP32_BYTES = 4
ROW_TASKS = frozenset({Task.REWARD, Task.EMBEDDING})
"""Tasks that load the model without its vocabulary head."""
FIRST_STAGE_ROLES = frozenset(
    {
        "embedding",
        "position_embedding",
        "token_type_embedding",
        "embedding_norm",
        "patch_embedding",
        "class_token",
    }
)
"""Modules outside the blocks that the first pipeline stage holds; the last holds the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRun:
    """Neighbouring layers of one kind, trained alike, on one rank."""

    stack: Stack
    block: Block
    weights: dict[str, Weight]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """int of parameters at rest, before data-parallel sharding."""

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

    def times(self, count: int) -> "States":
        """Return the states of ``count`` equal layers."""
        return States(
            weights=count * self.weights,
            replicated=count * self.replicated,
            gradients=count * self.gradients,
            optimizer=count * self.optimizer,
            master=count * self.master,
            one_state=count * self.one_state,
            largest_state=self.largest_state,
            largest_update=self.largest_update,
            gathered=count * self.gathered,
            parameters=count * self.parameters,
            trainable=count * self.trainable,
        )

    def plus(self, other: "States") -> "States":
        """Return both together."""
        return States(
            weights=self.weights + other.weights,
            replicated=self.replicated + other.replicated,
            gradients=self.gradients + other.gradients,
            optimizer=self.optimizer + other.optimizer,
            master=self.master + other.master,
            one_state=self.one_state + other.one_state,
            largest_state=max(self.largest_state, other.largest_state),
            largest_update=max(self.largest_update, other.largest_update),
            gathered=self.gathered + other.gathered,
            parameters=self.parameters + other.parameters,
            trainable=self.trainable + other.trainable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankModel:
    """The layers of one rank in order, and what is outside them."""

    runs: tuple[LayerRun, ...]
    outside: dict[str, Weight]
    states: States
    expert_states: States
    """The part of ``states`` that expert parallelism deals out: fewer ranks hold the same of it."""
    run_states: tuple[States, ...]
    """States of one layer of each run."""
    run_expert_states: tuple[States, ...]
    outside_states: States


def rank_model(job: TrainingJob, stage: PipelineStage) -> RankModel:
    """Return what a rank of one pipeline stage holds under the job's method and precision."""
    architecture = job.architecture
    runs: list[LayerRun] = []
    for stack in architecture.stacks:
        if stack is architecture.decoder:
            runs.extend(_runs(stack, job, start=stage.start, stop=stage.stop))
        elif stage.first:
            runs.extend(_runs(stack, job, start=0, stop=None))
    modules = [
        module_share(module, job.parallelism)
        for module in _outside(job)
        if _on_stage(module, job, stage)
    ]
    outside = held_weights(modules, job, in_block=False, trainable_layer=False)
    if "head" in outside and architecture.tie_word_embeddings and job.method.modules_to_save:
        outside["head"].saved_copy_bytes = 0  # its original is the embedding's table
    outside_states = weight_states(outside.values(), job)
    by_weights = {id(run.weights): run.weights for run in runs}
    states_of = {key: weight_states(held.values(), job) for key, held in by_weights.items()}
    run_states = tuple(states_of[id(run.weights)] for run in runs)
    experts_of = {key: _dealt_out(held, job) for key, held in by_weights.items()}
    run_expert_states = tuple(experts_of[id(run.weights)] for run in runs)
    total, of_experts = outside_states, States()
    for run, states, experts in zip(runs, run_states, run_expert_states, strict=True):
        total = total.plus(states.times(run.count))
        of_experts = of_experts.plus(experts.times(run.count))
    return RankModel(
        runs=tuple(runs),
        outside=outside,
        states=total,
        expert_states=of_experts,
        run_states=run_states,
        run_expert_states=run_expert_states,
        outside_states=outside_states,
    )


UNTIES = frozenset({"litgpt"})
"""Frameworks whose models hold embedding and output layer apart where the original ties them."""


TIES_ALWAYS = frozenset({"t5", "mt5", "umt5"})
TIES_ALWAYS_SINCE = (5, 0)
"""Families whose head transformers ties to the embedding whatever the config says (``configuration_t5.py``)."""


def ties_against_config(job: TrainingJob) -> bool:
    """Return whether the head is the embedding though the config keeps them apart."""
    architecture = job.architecture
    forced = architecture.model_type in TIES_ALWAYS
    return (
        forced
        and not architecture.tie_word_embeddings
        and job.software.transformers >= TIES_ALWAYS_SINCE
    )


HEAD_NAMES = frozenset({"lm_head", "embed_out", "output_layer"})
"""What output layers are called: one that peft saves whole (``modules_to_save``) is no longer the embedding's table."""


def _outside(job: TrainingJob) -> tuple[Module, ...]:
    """Return the modules outside the blocks: an output layer of its own, or none, where the framework decides."""
    architecture = job.architecture
    if ties_against_config(job):
        return tuple(module for module in architecture.outside if module.role != "head")
    if not architecture.tie_word_embeddings:
        return architecture.outside
    saved = HEAD_NAMES.intersection(job.method.modules_to_save)
    if not saved and job.software.framework not in UNTIES:
        return architecture.outside
    own = linear(
        min(saved, default="lm_head"),
        Part.HEAD,
        "head",
        architecture.hidden_size,
        architecture.vocab_size,
    )
    return (*architecture.outside, own)


def _on_stage(module: Module, job: TrainingJob, stage: PipelineStage) -> bool:
    """Return whether a stage holds a module outside the blocks; a tied embedding is on both ends."""
    if module.role == "head" and job.task in ROW_TASKS:
        return False
    if module.role in FIRST_STAGE_ROLES:
        tied = job.architecture.tie_word_embeddings and module.role == "embedding"
        return stage.first or (stage.last and tied)
    return stage.last


def _runs(stack: Stack, job: TrainingJob, *, start: int, stop: int | None) -> list[LayerRun]:
    """Group layers into runs of one kind; partial freezing trains the last layers of the last stack."""
    frozen = 0
    if job.method.kind is MethodKind.FREEZE:
        trains = job.method.trainable_layers if stack is job.architecture.decoder else 0
        frozen = max(0, len(stack.layers) - trains)
    held: dict[tuple[int, bool], LayerRun] = {}
    keys = [(kind, index >= frozen) for index, kind in enumerate(stack.layers)][start:stop]
    runs: list[LayerRun] = []
    for key, group in groupby(keys):
        if key not in held:
            kind, trains_here = key
            block = stack.blocks[kind]
            if _splits(job):
                block = block_share(block, job.parallelism, expert_tensor_ranks(job))
            weights = held_weights(block.modules, job, in_block=True, trainable_layer=trains_here)
            held[key] = LayerRun(stack=stack, block=block, weights=weights, count=1)
        run = held[key]
        count = sum(1 for _ in group)
        runs.append(LayerRun(stack=stack, block=run.block, weights=run.weights, count=count))
    return runs


def _splits(job: TrainingJob) -> bool:
    layout = job.parallelism
    sizes = (layout.tensor_parallel_size, layout.expert_parallel_size)
    return any(size > 1 for size in sizes)


def _dealt_out(weights: dict[str, Weight], job: TrainingJob) -> States:
    """Return the states of a layer's experts, where expert parallelism deals them out."""
    if job.parallelism.expert_parallel_size == 1:
        return States()
    experts = (weight for weight in weights.values() if weight.module.role in EXPERT_ROLES)
    return weight_states(experts, job)


def weight_states(weights: Iterable[Weight], job: TrainingJob) -> States:
    """Return what a set of weights takes at rest."""
    held = list(weights)
    total = States()
    for weight in held:
        total = total.plus(_states_of(weight, job))
    sizes = _state_sizes(held, job)
    return replace(
        total,
        largest_state=max(sizes, default=0),
        largest_update=max(
            (2 * size + before for before, size in pairwise((0, *sizes))), default=0
        ),
    )


def _state_sizes(weights: list[Weight], job: TrainingJob) -> list[int]:
    """Return the bytes of one full-size state of each tensor that trains, in order.

    transformers 5 holds the experts of a layer in two tensors, the first of them gate and up together; before, each
    expert has its own.
    """
    stacked = job.software.transformers >= STACKED_EXPERTS_SINCE
    sizes: list[int] = []
    for weight in weights:
        for trained in trained_tensors(weight):
            size = trained.elements * state_width(job, trained.width)
            if weight.module.kind is ModuleKind.EXPERTS and not stacked:
                size //= weight.module.copies
            elif weight.module.role == "expert_up" and weight.adapter is None and sizes:
                size += sizes.pop()
            sizes.append(size)
    return sizes


def _states_of(weight: Weight, job: TrainingJob) -> States:
    stored = weight.stored_bytes + weight.saved_copy_bytes - weight.replicated_bytes
    if weight.adapter is not None:
        adapter = weight.adapter
        magnitude = adapter.magnitude_elements * adapter.a.rest_width
        stored += adapter.a.stored_bytes + adapter.b.stored_bytes + magnitude
    gradients = optimizer = master = one_state = trainable = 0
    for trained in trained_tensors(weight):
        width = state_width(job, trained.width)
        trainable += trained.elements
        gradients += trained.elements * gradient_width(job, trained.width)
        optimizer += state_bytes(job.optimizer, trained, state_width=width)
        one_state += trained.elements * width
        if job.precision.master_weights and trained.width < FP32_BYTES:
            master += trained.elements * FP32_BYTES
    return States(
        weights=stored,
        replicated=weight.replicated_bytes,
        gradients=gradients,
        optimizer=optimizer,
        master=master,
        one_state=one_state,
        gathered=weight.gathered_bytes,
        parameters=weight.parameters,
        trainable=trainable,
    )


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
        module = weight.module
        matrix = module.is_linear or module.part is Part.EMBEDDING
        trained.append(
            Trained(
                elements=weight.elements,
                rows=weight.out_features if matrix else 1,
                columns=weight.in_features,
                width=weight.rest_width,
                embedding=module.part in {Part.EMBEDDING, Part.HEAD},
            )
        )
        if weight.has_bias:
            trained.append(_vector(weight.bias_elements, weight.rest_width))
    if weight.adapter is not None:
        adapter = weight.adapter
        trained.extend(
            Trained(
                elements=side.elements,
                rows=side.out_features,
                columns=side.in_features,
                width=side.rest_width,
            )
            for side in (adapter.a, adapter.b)
        )
        if adapter.has_magnitude:
            trained.append(_vector(adapter.magnitude_elements, adapter.a.rest_width))
    return trained


def _vector(elements: int, width: int) -> Trained:
    return Trained(elements=elements, rows=1, columns=elements, width=width)
