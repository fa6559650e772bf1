"""What Megatron-LM itself refuses, where it is about memory and no rule of the job says it.

Source: ``megatron/training/arguments.py: validate_args`` and
``core/transformer/transformer_config.py: __post_init__`` (d98e8a64).
"""

from collections.abc import Iterator, Mapping

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.megatron.arguments import Arguments, flag
from vramgate.launch.reading import Found, Unseen

_DEAD: Mapping[str, str] = {
    "batch_size": "--micro-batch-size",
    "warmup": "--lr-warmup-fraction",
    "model_parallel_size": "--tensor-model-parallel-size",
    "checkpoint_activations": "--recompute-activations, or --recompute-granularity full"
    " --recompute-method uniform --recompute-num-layers 1",
}
"""Flags that stop the program, and what took their place."""

_ENGINE = "te"  # codespell:ignore te
_ENGINE_LOSS_UNTIL = (0, 19)
"""From this version of core on, Transformer Engine's fused cross-entropy is refused."""


def check_rules(arguments: Arguments, draft: Draft) -> None:
    """Report what Megatron would refuse."""
    if arguments.is_command_line:
        for problem in _dead(arguments):
            draft.problem(problem)
    for rules in (_attention, _local_attention, _loss, _sharding, _pipeline):
        for problem in rules(arguments):
            draft.problem(problem)
    _warn(arguments, draft)


def _dead(arguments: Arguments) -> Iterator[Problem]:
    deepspeed = arguments.on("deepspeed") is not None
    for name, instead in _DEAD.items():
        if name not in arguments.settings or (deepspeed and name == "checkpoint_activations"):
            continue
        yield _problem(
            "dead_flag",
            f"{flag(name)} is no longer valid",
            f"write {instead}",
            {arguments.settings[name].source: True},
        )
    kind = arguments.settings.text("position_embedding_type")
    rotary = arguments.on("use_rotary_position_embeddings") is not None
    rotary = rotary or (isinstance(kind, Found) and kind.value == "rope")
    without = arguments.on("no_position_embedding")
    hidden = isinstance(kind, Unseen) or not arguments.is_whole
    if without is not None and not rotary and not hidden and not deepspeed:
        yield _problem(
            "dead_flag",
            "--no-position-embedding is valid with rope only",
            "write --position-embedding-type none",
            {without.source: True},
        )


def _attention(arguments: Arguments) -> Iterator[Problem]:
    latent, grouped = arguments.on("multi_latent_attention"), arguments.on("group_query_attention")
    if latent is not None and grouped is not None:
        yield _problem(
            "latent_with_grouped_attention",
            "multi-latent-attention and group-query-attention exclude each other",
            "leave --group-query-attention out",
            {latent.source: True, grouped.source: True},
            field="model",
        )


def _local_attention(arguments: Arguments) -> Iterator[Problem]:
    backend = arguments.settings.text("attention_backend")
    spec = arguments.settings.texts("spec")
    local = isinstance(spec, Found) and spec.value[:1] == ("local",)
    unseen = isinstance(spec, Unseen) or not arguments.is_whole
    if isinstance(backend, Found) and backend.value == "local" and not local and not unseen:
        yield _problem(
            "local_attention_without_spec",
            "attention-backend local works with --spec local only",
            "add --spec local, or write --attention-backend unfused",
            {backend.source: "local"},
            field="attention",
        )


def _loss(arguments: Arguments) -> Iterator[Problem]:
    half = arguments.on("fp16_lm_cross_entropy")
    if half is not None and arguments.is_whole and arguments.on("fp16") is None:
        yield _problem(
            "fp16_loss_without_fp16",
            "fp16-lm-cross-entropy needs fp16",
            "leave it out",
            {half.source: True},
            field="loss",
        )
    fused = arguments.on("cross_entropy_loss_fusion")
    kind = arguments.settings.text("cross_entropy_fusion_impl")
    version = arguments.version
    refused = version is not None and version >= _ENGINE_LOSS_UNTIL
    if fused is not None and isinstance(kind, Found) and kind.value == _ENGINE and refused:
        yield _problem(
            "engine_loss_disabled",
            "Transformer Engine's fused cross-entropy is disabled in this version",
            "write --cross-entropy-fusion-impl native",
            {fused.source: True, kind.source: kind.value},
            field="loss",
        )


def _sharding(arguments: Arguments) -> Iterator[Problem]:
    if not arguments.is_whole:
        return
    fsdp = arguments.on("use_megatron_fsdp") or arguments.on("use_custom_fsdp")
    optimizer = arguments.on("use_distributed_optimizer")
    gather, reduce = arguments.on("overlap_param_gather"), arguments.on("overlap_grad_reduce")
    named = arguments.settings.text("optimizer")
    layer_wise = isinstance(named, Found) and named.value == "dist_muon"
    shards = fsdp is not None or optimizer is not None or layer_wise
    if gather is not None and (not shards or reduce is None):
        yield _problem(
            "overlap_param_gather",
            "overlap-param-gather needs the distributed optimizer and overlap-grad-reduce",
            "add --use-distributed-optimizer --overlap-grad-reduce",
            {gather.source: True},
            field="sharding.implementation",
        )
    kept = arguments.on("fp8_param_gather")
    if kept is not None and not shards and arguments.on("use_torch_fsdp2") is None:
        yield _problem(
            "fp8_param_gather_unsharded",
            "fp8-param-gather needs the distributed optimizer, or FSDP",
            "add --use-distributed-optimizer",
            {kept.source: True},
            field="sharding.implementation",
        )
    version = arguments.settings.whole("megatron_fsdp_version")
    second = isinstance(version, Found) and version.value > 1
    if fsdp is not None and optimizer is not None and isinstance(version, Found) and second:
        yield _problem(
            "fsdp_version_2_with_distributed_optimizer",
            "megatron-fsdp-version 2 and use-distributed-optimizer exclude each other",
            "leave --use-distributed-optimizer out",
            {version.source: version.value, optimizer.source: True},
            field="sharding.implementation",
        )


_UNEVEN = (
    "decoder_first_pipeline_num_layers",
    "decoder_last_pipeline_num_layers",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank",
    "pipeline_model_parallel_layout",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
)


def _pipeline(arguments: Arguments) -> Iterator[Problem]:
    layers = arguments.settings.whole("num_layers", "encoder_num_layers")
    stages = arguments.settings.whole("pipeline_model_parallel_size")
    if any(name in arguments.settings for name in _UNEVEN):
        return
    if not isinstance(layers, Found) or not isinstance(stages, Found):
        return
    if stages.value > 0 and layers.value > stages.value and layers.value % stages.value:
        yield _problem(
            "layers_over_stages",
            f"{layers.value} layers are not divisible by pipeline-model-parallel-size"
            f" {stages.value}",
            "write a divisor of the layers, or --decoder-last-pipeline-num-layers",
            {layers.source: layers.value, stages.source: stages.value},
            field="parallelism.pipeline_parallel_size",
        )


def _warn(arguments: Arguments, draft: Draft) -> None:
    experts = arguments.settings.whole("num_experts")
    ranks = arguments.size("expert_model_parallel_size")
    dropless = "moe_expert_capacity_factor" not in arguments.settings
    if isinstance(experts, Found) and experts.value > 1 and ranks > 1 and dropless:
        draft.warn(
            "experts_counted_as_balanced",
            f"{experts.source}: without a capacity factor, a rank's experts may get more tokens than"
            " the even share that is counted.",
        )
    if arguments.on("fp32_residual_connection"):
        draft.warn(
            "fp32_residuals", "Residual streams in fp32 are counted in the format of the products."
        )


def _problem(
    rule: str, detail: str, fix: str, values: Mapping[str, object], *, field: str | None = None
) -> Problem:
    return Problem(rule=rule, detail=detail, fix=fix, values=dict(values), field=field)
