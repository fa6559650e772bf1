"""How Megatron-LM spreads a model over devices: parallel sizes, pipeline parts, sharded states.

Sources, Megatron-LM d98e8a64: ``training/arguments.py: validate_args``,
``core/distributed/distributed_data_parallel_config.py`` (Megatron-FSDP's strategies),
``core/transformer/pipeline_parallel_layer_layout.py``.
"""

from vramgate.costmodel.job import ShardingImplementation
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.megatron.arguments import Arguments, flag
from vramgate.launch.frameworks.megatron.batch import data_parallel_size
from vramgate.launch.frameworks.megatron.pattern import NoPatternError, layout_stages
from vramgate.launch.reading import Found, Misread, Reading, Unseen

_SIZES = {
    "tensor_model_parallel_size": "parallelism.tensor_parallel_size",
    "pipeline_model_parallel_size": "parallelism.pipeline_parallel_size",
    "context_parallel_size": "parallelism.context_parallel_size",
    "ds_sequence_parallel_size": "parallelism.context_parallel_size",
    "expert_model_parallel_size": "parallelism.expert_parallel_size",
}
_PARTS = "parallelism.virtual_pipeline_stages"
_PART_FLAGS = (
    "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank",
    "pipeline_model_parallel_layout",
)
_STRATEGIES = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_WHOLE_SHARD = 3


def say_layout(arguments: Arguments, draft: Draft) -> None:
    """Say parallel sizes and sharding."""
    for name, field in _SIZES.items():
        draft.say(field, arguments.settings.whole(name))
    _say_sequence_parallel(arguments, draft)
    _say_pipeline_parts(arguments, draft)
    _warn_of_uneven_stages(arguments, draft)
    _warn_of_expert_tensor(arguments, draft)
    _say_sharding(arguments, draft)


def _say_sequence_parallel(arguments: Arguments, draft: Draft) -> None:
    """Say sequence parallelism, which one tensor-parallel rank turns off."""
    sequence = arguments.switch("sequence_parallel")
    tensor = arguments.settings.whole("tensor_model_parallel_size")
    alone = isinstance(tensor, Found) and tensor.value == 1
    alone = alone or (tensor is None and arguments.is_whole)
    if isinstance(sequence, Found) and sequence.value and alone:
        sequence = Found(value=False, source=sequence.source)
    draft.say("parallelism.sequence_parallel", sequence)


def _say_pipeline_parts(arguments: Arguments, draft: Draft) -> None:
    settings = arguments.settings
    said = [name for name in _PART_FLAGS if name in settings]
    if len(said) > 1 and arguments.is_command_line:
        draft.problem(
            Problem(
                rule="two_pipeline_layouts",
                detail=f"{' and '.join(map(flag, said))} exclude each other",
                fix="leave one of them out",
                values={settings[name].source: True for name in said},
                field=_PARTS,
            )
        )
        return
    parts = settings.whole(_PART_FLAGS[1])
    pattern = settings.text("hybrid_layer_pattern")
    if isinstance(pattern, Found):
        parts = _parts_of_pattern(arguments, pattern)
    elif _PART_FLAGS[0] in settings:
        parts = _parts_of_layers(arguments, settings.whole(_PART_FLAGS[0]), draft)
    elif _PART_FLAGS[2] in settings:
        parts = _parts_of_layout(arguments, settings.text(_PART_FLAGS[2]), draft)
    if not isinstance(parts, Found) or parts.value > 0:
        draft.say(_PARTS, parts)


def _parts_of_layers(arguments: Arguments, each: Reading[int], draft: Draft) -> Reading[int]:
    """Return the parts of a stage, from the layers of a part."""
    if not isinstance(each, Found):
        return each
    hidden = arguments.unseen(*_LAYERS, _PIPELINE)
    if hidden is not None:
        return hidden
    own, stages = arguments.size(*_LAYERS, default=0), arguments.size(_PIPELINE)
    layers = own + sum(1 for name in _ACCOUNTED if arguments.on(name))
    if layers <= 0 or stages <= 0 or each.value <= 0:
        return None
    if layers % stages or (layers // stages) % each.value:
        draft.problem(
            Problem(
                rule="layers_per_virtual_stage",
                detail=f"{layers} layers over {stages} pipeline stages are not whole parts of"
                f" {each.value} layers",
                fix="write a divisor of the layers of a stage",
                values={each.source: each.value},
                field=_PARTS,
            )
        )
        return None
    parts = layers // stages // each.value
    if parts * stages > own:
        reason = "embedding and loss stand for layers of their own, and some parts hold none"
        return Unseen(each.source, reason, "leave it out: parts without layers are not counted")
    return Found(parts, each.source)


_PIPELINE = "pipeline_model_parallel_size"
_LAYERS = ("num_layers", "encoder_num_layers")
_ACCOUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")


def _parts_of_pattern(arguments: Arguments, pattern: Found[str]) -> Found[int] | None:
    """Return the parts that the bars of a hybrid's pattern cut each stage into."""
    segments = pattern.value.partition("/")[0].count("|") + 1
    stages = max(1, arguments.size(_PIPELINE))
    return Found(segments // stages, pattern.source) if segments > stages else None


def _parts_of_layout(arguments: Arguments, layout: Reading[str], draft: Draft) -> Reading[int]:
    if not isinstance(layout, Found):
        return layout
    stages = arguments.size(_PIPELINE)
    try:
        layers = layout_stages(layout.value)
    except NoPatternError:
        return Misread(layout.source, layout.value, "a pipeline layout")
    if stages <= 0 or len(layers) % stages:
        draft.problem(
            Problem(
                rule="pipeline_layout",
                detail=f"the layout has {len(layers)} stages, not a multiple of"
                f" pipeline-model-parallel-size {stages}",
                fix="name as many stages as there are ranks, or a multiple",
                values={layout.source: layout.value[:200]},
                field=_PARTS,
            )
        )
        return None
    if len(set(layers)) > 1:
        _warn_uneven(layout.source, draft)
    return Found(len(layers) // stages, layout.source)


def _warn_uneven(source: str, draft: Draft) -> None:
    draft.warn(
        "uneven_pipeline",
        f"{source}: pipeline stages hold different numbers of layers; they are counted as even.",
    )


def _warn_of_uneven_stages(arguments: Arguments, draft: Draft) -> None:
    names = (
        "decoder_first_pipeline_num_layers",
        "decoder_last_pipeline_num_layers",
        *_ACCOUNTED,
    )
    for name in names:
        said = arguments.settings.value(name)
        if isinstance(said, Unseen) or (isinstance(said, Found) and said.value):
            _warn_uneven(said.source, draft)
            return


def _warn_of_expert_tensor(arguments: Arguments, draft: Draft) -> None:
    experts = arguments.settings.whole("expert_tensor_parallel_size")
    tensor = arguments.size("tensor_model_parallel_size")
    if (
        isinstance(experts, Found)
        and experts.value != tensor
        and "num_experts" in arguments.settings
    ):
        draft.warn(
            "expert_tensor_parallel",
            f"{experts.source} {experts.value}: experts are split otherwise than the rest"
            f" (tensor parallel size {tensor}); they are counted as split alike where the devices"
            " suffice.",
        )


def _say_sharding(arguments: Arguments, draft: Draft) -> None:
    fsdp2 = arguments.on("use_torch_fsdp2")
    fsdp = arguments.on("use_megatron_fsdp") or arguments.on("use_custom_fsdp")
    optimizer = arguments.switch("use_distributed_optimizer")
    if fsdp2 is not None:
        _say_torch_fsdp2(arguments, fsdp2, draft)
    elif fsdp is not None:
        _say_megatron_fsdp(arguments, fsdp, draft)
    elif isinstance(optimizer, Unseen):
        draft.unknown("sharding", optimizer)
    elif isinstance(optimizer, Found):
        frozen = arguments.on("freeze_all_layers")
        stage = 1 if optimizer.value and frozen is None else 0
        _say(ShardingImplementation.MEGATRON, stage, optimizer.source, draft)
    elif _is_layer_wise(arguments):
        source = arguments.settings["optimizer"].source
        _say(ShardingImplementation.MEGATRON, 1, source, draft)
    _say_instances(arguments, draft)


def _is_layer_wise(arguments: Arguments) -> bool:
    named = arguments.settings.text("optimizer")
    return isinstance(named, Found) and named.value == "dist_muon"


def _say(implementation: ShardingImplementation, stage: int, source: str, draft: Draft) -> None:
    draft.say("sharding.implementation", Found(implementation, source))
    draft.say("sharding.zero_stage", Found(stage, source))


def _say_torch_fsdp2(arguments: Arguments, fsdp2: Found[bool], draft: Draft) -> None:
    kept = arguments.on("torch_fsdp2_no_reshard_after_forward")
    _say(ShardingImplementation.FSDP2, _WHOLE_SHARD, fsdp2.source, draft)
    if kept is not None:
        draft.say("sharding.zero_stage", Found(_WHOLE_SHARD - 1, kept.source))
        draft.say("sharding.reshard_after_forward", Found(value=False, source=kept.source))
    against: dict[str, object] = {}
    for name in ("pipeline_model_parallel_size", "expert_model_parallel_size"):
        size = arguments.settings.whole(name)
        if isinstance(size, Found) and size.value > 1:
            against[size.source] = size.value
    for name in ("use_distributed_optimizer", "fp16"):
        switch = arguments.on(name)
        if switch is not None:
            against[switch.source] = True
    if against:
        draft.problem(
            Problem(
                rule="torch_fsdp2_excludes",
                detail="use-torch-fsdp2 works with neither pipeline nor expert parallelism, the"
                " distributed optimizer, nor fp16",
                fix="leave them out, or write --use-megatron-fsdp",
                values={fsdp2.source: True, **against},
                field="sharding.implementation",
            )
        )


def _say_megatron_fsdp(arguments: Arguments, fsdp: Found[bool], draft: Draft) -> None:
    strategy = arguments.settings.text("data_parallel_sharding_strategy")
    draft.say("sharding.implementation", Found(ShardingImplementation.MEGATRON, fsdp.source))
    if isinstance(strategy, Found):
        stage: Reading[int] = (
            Found(_STRATEGIES[strategy.value], strategy.source)
            if strategy.value in _STRATEGIES
            else Misread(strategy.source, strategy.value, f"one of {', '.join(_STRATEGIES)}")
        )
    elif strategy is None:
        stage = Found(_WHOLE_SHARD, fsdp.source)
    else:
        stage = strategy
    draft.say("sharding.zero_stage", stage)


def _say_instances(arguments: Arguments, draft: Draft) -> None:
    """Say over how many ranks a shard is spread, where the optimizer has several copies."""
    instances = arguments.settings.whole("num_distributed_optimizer_instances")
    if not isinstance(instances, Found) or instances.value <= 1:
        return
    ranks = data_parallel_size(arguments, draft)
    field = "sharding.shard_group_size"
    if isinstance(ranks, Unseen):
        draft.say(field, Unseen(instances.source, ranks.reason, ranks.hint))
        return
    context = arguments.size("context_parallel_size")
    spread = (ranks or 0) * max(1, context)
    group, rest = divmod(spread, instances.value)
    if spread and not rest and ranks and ranks % max(1, group):
        draft.warn(
            "optimizer_instances",
            f"{instances.source} {instances.value}: states are spread over {group} ranks, context"
            " parallel ones among them; they are counted as spread over all that share them.",
        )
    elif spread and not rest:
        draft.say(field, Found(group, instances.source))
    elif spread:
        draft.problem(
            Problem(
                rule="optimizer_instances",
                detail=f"{instances.value} optimizer instances do not divide the {spread} ranks"
                " that share states",
                fix="write a divisor",
                values={instances.source: instances.value},
                field=field,
            )
        )
