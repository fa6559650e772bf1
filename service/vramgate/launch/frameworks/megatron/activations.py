"""What Megatron-LM keeps for backward: recomputation, attention, loss, fused kernels.

Sources, Megatron-LM d98e8a64: ``core/transformer/transformer_config.py`` (``__post_init__``),
``core/transformer/transformer_block.py`` (uniform and block), ``training/arguments.py``.
"""

from vramgate.costmodel.job import AttentionImplementation, CheckpointMode, Loss
from vramgate.jobs.vocabulary import FusedKernel
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.megatron.arguments import Arguments, flag
from vramgate.launch.reading import Found, Misread, Reading, Unseen, converted

_CHECKPOINTING = "activation_checkpointing"
_MODULES_NAMES = """
core_attn gdn_norm_out gdp_in_proj gdp_qkv layernorm mhc mla_up_proj mlp moe moe_act
shared_experts
"""
_MODULES = frozenset(_MODULES_NAMES.split())
_BACKENDS = {
    "flash": AttentionImplementation.FLASH_2,
    "fused": AttentionImplementation.SDPA,
    "unfused": AttentionImplementation.EAGER,
    "local": AttentionImplementation.EAGER,
}
_FLASH_VERSIONS = {"3": AttentionImplementation.FLASH_3}


def say_activations(arguments: Arguments, draft: Draft) -> None:
    """Say recomputation, attention, loss and kernels."""
    _say_recomputation(arguments, draft)
    _say_attention(arguments, draft)
    fused = arguments.settings.flag("cross_entropy_loss_fusion")
    draft.say("loss", converted(fused, lambda on: Loss.FUSED if on else Loss.STANDARD))
    _say_kernels(arguments, draft)
    _warn_of_offload(arguments, draft)


def _say_recomputation(arguments: Arguments, draft: Draft) -> None:
    selective = arguments.on("recompute_activations") or arguments.on("moe_layer_recompute")
    granularity = arguments.settings.text("recompute_granularity")
    if selective is not None:
        granularity = Found(CheckpointMode.SELECTIVE.value, selective.source)
    if isinstance(granularity, Unseen):
        draft.unknown(_CHECKPOINTING, granularity)
    elif isinstance(granularity, Misread):
        draft.misread(f"{_CHECKPOINTING}.mode", granularity)
    elif granularity is not None and granularity.value == "selective":
        _say_selective(arguments, granularity, draft)
    elif granularity is not None and granularity.value == "full":
        _say_full(arguments, granularity, draft)
    elif granularity is not None:
        draft.misread(
            f"{_CHECKPOINTING}.mode",
            Misread(granularity.source, granularity.value, "full or selective"),
        )


def _say_selective(arguments: Arguments, granularity: Found[str], draft: Draft) -> None:
    draft.say(f"{_CHECKPOINTING}.mode", Found(CheckpointMode.SELECTIVE, granularity.source))
    modules = arguments.settings.texts("recompute_modules")
    moe = arguments.on("moe_layer_recompute")
    if moe is not None:
        said = modules.value if isinstance(modules, Found) else ("core_attn",)
        modules = Found(tuple(dict.fromkeys((*said, "moe"))), moe.source)
    if isinstance(modules, Found) and set(modules.value) - _MODULES:
        unknown = sorted(set(modules.value) - _MODULES)
        draft.misread(
            f"{_CHECKPOINTING}.modules",
            Misread(modules.source, ", ".join(unknown), f"one of {', '.join(sorted(_MODULES))}"),
        )
    else:
        draft.say(f"{_CHECKPOINTING}.modules", modules)
    for name in ("recompute_method", "recompute_num_layers"):
        said_too = arguments.settings.text(name)
        if isinstance(said_too, Found):
            draft.problem(
                Problem(
                    rule=f"selective_with_{name}",
                    detail=f"{flag(name)} {said_too.value[:80]} with selective"
                    " recomputation, which recomputes parts of every layer",
                    fix=f"leave {flag(name)} out, or write --recompute-granularity full",
                    values={granularity.source: "selective", said_too.source: said_too.value[:200]},
                    field=_CHECKPOINTING,
                )
            )


def _say_full(arguments: Arguments, granularity: Found[str], draft: Draft) -> None:
    settings = arguments.settings
    method, number = settings.text("recompute_method"), settings.whole("recompute_num_layers")
    missing = [
        name
        for name, said in (("recompute-method", method), ("recompute-num-layers", number))
        if said is None
    ]
    if arguments.on("deepspeed"):  # its recompute-num-layers is 1 where nobody says it
        missing = []
    if missing and arguments.is_whole:
        flags = " and ".join(f"--{name}" for name in missing)
        draft.problem(
            Problem(
                rule="full_recompute_incomplete",
                detail=f"recompute-granularity full needs {flags}",
                fix="add --recompute-method uniform --recompute-num-layers 1",
                values={granularity.source: "full"},
                field=_CHECKPOINTING,
            )
        )
    hidden = next((one for one in (method, number) if isinstance(one, Unseen)), None)
    if hidden is not None:
        draft.unknown(_CHECKPOINTING, hidden)
        return
    if isinstance(method, Found) and method.value == "block":
        _say_block(arguments, granularity, number, draft)
        return
    draft.say(f"{_CHECKPOINTING}.mode", Found(CheckpointMode.FULL, granularity.source))
    draft.say(f"{_CHECKPOINTING}.every_n_layers", number)


def _say_block(
    arguments: Arguments, granularity: Found[str], number: Reading[int], draft: Draft
) -> None:
    """Say full checkpointing where the block holds every layer of a stage, else that it is partial."""
    stage = _stage_layers(arguments)
    if isinstance(number, Found) and stage is not None and number.value >= stage:
        draft.say(f"{_CHECKPOINTING}.mode", Found(CheckpointMode.FULL, granularity.source))
    elif isinstance(number, Found) and number.value == 0:
        draft.say(f"{_CHECKPOINTING}.mode", Found(CheckpointMode.NONE, number.source))
    elif isinstance(number, Found):
        of = f"of its {stage} " if stage is not None else ""
        draft.unknown(
            _CHECKPOINTING,
            Unseen(
                number.source,
                f"each stage recomputes {number.value} {of}layers and keeps the others whole,"
                " which no field says",
                'say what comes closest with VRAMGATE_ACTIVATION_CHECKPOINTING ("none" is more,'
                ' "full" less than it holds)',
            ),
        )
    elif isinstance(number, Misread):
        draft.misread(f"{_CHECKPOINTING}.every_n_layers", number)


def _stage_layers(arguments: Arguments) -> int | None:
    layers = arguments.size("num_layers", "encoder_num_layers", default=0)
    stages = arguments.size("pipeline_model_parallel_size")
    each = arguments.size("num_layers_per_virtual_pipeline_stage", default=0)
    parts = arguments.size("num_virtual_stages_per_pipeline_rank")
    if each > 0:
        return each
    return layers // (stages * parts) if layers and stages > 0 and parts > 0 else None


def _say_attention(arguments: Arguments, draft: Draft) -> None:
    backend = arguments.settings.text("attention_backend")
    if isinstance(backend, Found):
        name = backend.value.rpartition(".")[2]
        if name in _BACKENDS:
            version = arguments.settings.text("flash_attention_version")
            chosen = _BACKENDS[name]
            if name == "flash" and isinstance(version, Found):
                chosen = _FLASH_VERSIONS.get(version.value, chosen)
            draft.say("attention", Found(chosen, backend.source))
        elif name != "auto":
            draft.misread(
                "attention", Misread(backend.source, name, "auto, flash, fused, unfused or local")
            )
        return
    draft.say("attention", backend)
    _say_older_attention(arguments, draft)


def _say_older_attention(arguments: Arguments, draft: Draft) -> None:
    """Say attention by the flags from before ``--attention-backend``."""
    flash = arguments.on("use_flash_attn") or arguments.on("use_flash_attn_v2")
    local = arguments.settings.text("transformer_impl")
    if flash is not None:
        draft.say("attention", Found(AttentionImplementation.FLASH_2, flash.source))
    elif isinstance(local, Found) and local.value == "local":
        draft.say("attention", Found(AttentionImplementation.EAGER, local.source))


def _say_kernels(arguments: Arguments, draft: Draft) -> None:
    """Say the fused kernels where one of them is turned off."""
    off = {
        FusedKernel.ROPE: arguments.switch("apply_rope_fusion", "no_rope_fusion"),
        FusedKernel.SWIGLU: arguments.switch("bias_swiglu_fusion", "no_bias_swiglu_fusion"),
        FusedKernel.RMS_NORM: _local_norm(arguments),
    }
    turned = [one for one in off.values() if isinstance(one, Found) and not one.value]
    if turned:
        order = (FusedKernel.RMS_NORM, FusedKernel.ROPE, FusedKernel.SWIGLU)
        kept = tuple(name for name in order if off[name] not in turned)
        draft.say("fused_kernels", Found(kept, turned[0].source))


def _local_norm(arguments: Arguments) -> Reading[bool]:
    # core/models/backends.py: the local implementation's RMSNorm is torch's own.
    local = arguments.settings.text("transformer_impl")
    rms = arguments.settings.text("normalization")
    if isinstance(local, Found) and local.value == "local" and isinstance(rms, Found):
        return Found(rms.value.lower() != "rmsnorm", local.source)
    return None


def _warn_of_offload(arguments: Arguments, draft: Draft) -> None:
    fine = arguments.on("fine_grained_activation_offloading")
    layers = arguments.settings.whole("cpu_offloading_num_layers")
    spread = arguments.on("distribute_saved_activations")
    if fine is not None:
        draft.warn(
            "activation_offload",
            f"{fine.source}: activations of some modules go to host memory; they are counted on"
            " the card.",
        )
    if isinstance(layers, Found) and layers.value > 0:
        draft.warn(
            "activation_offload",
            f"{layers.source} {layers.value}: so many layers' activations go to host memory; they"
            " are counted on the card.",
        )
        _check_offload(arguments, layers, draft)
    if spread is not None:
        draft.warn(
            "saved_activations_distributed",
            f"{spread.source}: saved inputs of layers are split over the tensor-parallel ranks;"
            " they are counted whole.",
        )
        _check_distributed(arguments, spread, draft)


def _check_offload(arguments: Arguments, layers: Found[int], draft: Draft) -> None:
    against = [
        said
        for said in (
            arguments.settings.whole("pipeline_model_parallel_size"),
            arguments.settings.text("recompute_granularity"),
        )
        if isinstance(said, Found) and said.value != 1
    ]
    if against:
        draft.problem(
            Problem(
                rule="offload_with_recompute_or_pipeline",
                detail="cpu-offloading-num-layers works neither with pipeline stages nor with"
                " recomputation",
                fix="leave one of them out",
                values={layers.source: layers.value, **{one.source: one.value for one in against}},
                field=_CHECKPOINTING,
            )
        )


def _check_distributed(arguments: Arguments, spread: Found[bool], draft: Draft) -> None:
    granularity = arguments.settings.text("recompute_granularity")
    full = isinstance(granularity, Found) and granularity.value == "full"
    tensor = arguments.size("tensor_model_parallel_size", default=1)
    sequence = arguments.on("sequence_parallel")
    if arguments.is_whole and (not full or tensor == 1 or sequence is not None):
        draft.problem(
            Problem(
                rule="distributed_saved_activations",
                detail="distribute-saved-activations needs full recomputation and tensor"
                " parallelism without sequence-parallel",
                fix="leave it out",
                values={spread.source: True},
                field=_CHECKPOINTING,
            )
        )
