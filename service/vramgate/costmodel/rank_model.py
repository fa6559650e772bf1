"""RankModel: the model as one rank holds it: weights by layer, and what they, their gradients and states take."""

from collections import defaultdict
from dataclasses import dataclass, replace

from vramgate.costmodel.architecture import Module, Part, linear
from vramgate.costmodel.job import MethodKind, Parallelism, Task, TrainingJob
from vramgate.costmodel.kinds import Layer, LayerKinds, Round
from vramgate.costmodel.parallelism import PipelineStage, module_share, splits_layers
from vramgate.costmodel.states import NO_STATES, States, together, weight_states
from vramgate.costmodel.weights import Weight, held_weights

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
class RankModel:
    """The layers of one rank in order, and what is outside them."""

    rounds: tuple[Round, ...]
    layers: tuple[tuple[int, Layer], ...]
    """How many layers of each kind there are."""
    outside: dict[str, Weight]
    states: States
    expert_states: States
    """The part of ``states`` that expert parallelism deals out: fewer ranks hold the same of it."""
    outside_states: States


def rank_model(job: TrainingJob, stage: PipelineStage, kinds: LayerKinds) -> RankModel:
    """Return what a rank of one pipeline stage holds under the job's method and precision."""
    rounds: list[Round] = []
    for stack in job.architecture.stacks:
        if stack is job.architecture.decoder:
            rounds.extend(kinds.rounds(stack, start=stage.start, stop=stage.stop))
        elif stage.first:
            rounds.extend(kinds.rounds(stack))
    layers = _counted(rounds)
    outside = _held_outside(job, stage)
    outside_states = weight_states(outside.values(), job)
    return RankModel(
        rounds=tuple(rounds),
        layers=layers,
        outside=outside,
        states=together([(1, outside_states), *((n, layer.states) for n, layer in layers)]),
        expert_states=_dealt_out(job, layers),
        outside_states=outside_states,
    )


def _dealt_out(job: TrainingJob, layers: tuple[tuple[int, Layer], ...]) -> States:
    """Return the states of all experts, where expert parallelism deals them out."""
    if job.parallelism.expert_parallel_size == 1:
        return NO_STATES
    return together([(1, NO_STATES), *((n, layer.expert_states) for n, layer in layers)])


def _counted(rounds: list[Round]) -> tuple[tuple[int, Layer], ...]:
    """Return how many layers of each kind there are, in the order of each kind's first."""
    counts: dict[int, int] = defaultdict(int)
    kinds: dict[int, Layer] = {}
    for each in rounds:
        for run in each.runs:
            counts[id(run.layer)] += each.times * run.count
            kinds[id(run.layer)] = run.layer
    return tuple((counts[key], layer) for key, layer in kinds.items())


def _held_outside(job: TrainingJob, stage: PipelineStage) -> dict[str, Weight]:
    """Return the weights outside the blocks that a stage holds."""
    modules = [
        module_share(module, job.parallelism)
        for module in _outside(job)
        if _on_stage(module, job, stage)
    ]
    outside = held_weights(modules, job, in_block=False, trainable_layer=False)
    if "head" in outside and job.architecture.tie_word_embeddings and job.method.modules_to_save:
        outside["head"].saved_copy_bytes = 0  # its original is the embedding's table
    return outside


def trainable_parameters(job: TrainingJob, kinds: LayerKinds) -> int:
    """Return the parameters that train of the whole model, however many ranks it is split over."""
    whole = PipelineStage(name="")
    if job.method.kind is MethodKind.FULL:
        outside = sum(m.parameters for m in _outside(job) if _on_stage(m, job, whole))
        return outside + sum(
            stack.layers.count(kind) * block.parameters
            for stack in job.architecture.stacks
            for kind, block in enumerate(stack.blocks)
        )
    if splits_layers(job.parallelism):
        job = replace(job, parallelism=Parallelism())
        kinds = LayerKinds(job)
    return rank_model(job, whole, kinds).states.trainable


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
