"""Megatron-LM's arguments by the names they have inside, from flags or from a configuration.

``argparse`` rules of ``megatron/training/arguments.py`` (d98e8a64): no abbreviations, the last
occurrence counts, switches take no word. Flags are generated from dataclass fields (``_`` as
``-``); a switch that is on by default has ``--no-x`` and ``--disable-x``
(``argument_utils.py: ArgumentGroupFactory``).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vramgate.jobs.stack import Version, versions_in
from vramgate.launch.reading import Found, Reading, Unseen, value_or
from vramgate.launch.settings import Setting, Settings, of_document, of_flags
from vramgate.launch.words import Word

_SWITCHES_NAMES = """
account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split
accumulate_allreduce_grads_in_fp32 add_qkv_bias apply_layernorm_1p attention_output_gate
attention_softmax_in_fp32 bert_no_binary_head bf16 calculate_per_token_loss
checkpoint_activations checkpoint_in_cpu cpu_optimizer cross_entropy_loss_fusion
dataloader_inter_document_masking decrease_batch_size_if_needed deepspeed
deepspeed_activation_checkpointing disable_bias_linear distribute_saved_activations
enable_gpt_oss enable_mhc_connections fine_grained_activation_offloading finetune first_last_layers_bf16 fp16
fp16_lm_cross_entropy fp32_residual_connection fp4_param_gather fp8_param_gather freeze_LM
freeze_ViT freeze_all_layers grad_reduce_in_bf16 group_query_attention is_hybrid_model
log_throughput manual_gc mock_data moe_enable_deepep moe_grouped_gemm moe_layer_recompute
moe_pad_expert_input_to_capacity moe_permute_fusion moe_shared_expert_gate
moe_shared_expert_overlap multi_latent_attention no_add_position_embedding
no_bias_dropout_fusion no_bias_gelu_fusion no_bias_swiglu_fusion
no_create_attention_mask_in_dataloader no_gradient_accumulation_fusion no_load_optim no_load_rng
no_masked_softmax_fusion no_mmap_bin_files no_overlap_p2p_communication no_pad_vocab_size
no_persist_layer_norm no_pipeline_parallel no_position_embedding no_query_key_layer_scaling
no_rope_fusion no_save_optim no_save_rng openai_gelu optimizer_cpu_offload
overlap_cpu_optimizer_d2h_h2d overlap_grad_reduce overlap_moe_expert_parallel_comm
overlap_param_gather overlap_param_gather_with_optimizer_step perform_rl_step qk_l2_norm
qk_layernorm quick_geglu recompute_activations sequence_parallel sft skip_train squared_relu
swiglu torch_fsdp2_no_reshard_after_forward tp_comm_overlap untie_embeddings_and_output_weights
use_checkpoint_args use_custom_fsdp use_distributed_optimizer use_flash_attn use_flash_attn_v2
use_mcore_models use_megatron_fsdp use_precision_aware_optimizer use_rope_scaling
use_rotary_position_embeddings use_torch_fsdp2 use_torch_optimizer_for_cpu_offload
"""
SWITCHES = frozenset(_SWITCHES_NAMES.split())
"""Flags without a word behind them, by the names inside."""

_LISTS_NAMES = """
cp_comm_type data_path iterations_to_skip moe_aux_loss_coeff moe_router_load_balancing_type
num_experts offload_modules rampup_batch_size recompute_modules spec split test_data_path
train_data_path valid_data_path
"""
_LISTS = frozenset(_LISTS_NAMES.split())
_OPTIONS_INSIDE = re.compile(r"args|arguments|opts|options|flags|extra|params", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What was said, by dest."""

    settings: Settings
    program: str = ""
    """Of a command line: ``pretrain_gpt.py``."""
    hidden: tuple[Word, ...] = ()
    """Words without a value that may hold further options: ``$GPT_ARGS``."""
    stack: str = ""
    """Versions, as far as they are known while this is read."""

    @property
    def version(self) -> Version | None:
        """Megatron core's version, where it is stated."""
        return versions_in(self.stack).get("megatron")

    @property
    def is_command_line(self) -> bool:
        """Whether the rules of the command line hold, and its defaults."""
        return bool(self.program)

    @property
    def is_whole(self) -> bool:
        """Whether what is not here is not said: a command line without hidden words."""
        return self.is_command_line and not self.hidden

    def on(self, *names: str) -> Found[bool] | None:
        """Return a switch that is visibly on."""
        for name in names:
            reading = self.switch(name)
            if isinstance(reading, Found) and reading.value:
                return reading
        return None

    def switch(self, name: str, *negations: str) -> Reading[bool]:
        """Return a switch; ``negations`` are the flags that turn it off."""
        for negation in negations:
            off = self.settings.flag(negation)
            if isinstance(off, Found):
                return Found(value=not off.value, source=off.source)
        return self.settings.flag(name)

    def size(self, name: str, *others: str, default: int = 1) -> int:
        """Return a size where it is visible, else the default."""
        return value_or(self.settings.whole(name, *others), default)

    def unseen(self, *names: str) -> Unseen | None:
        """Return the first of the settings that is said out of sight."""
        for name in names:
            reading = self.settings.value(name)
            if isinstance(reading, Unseen):
                return reading
        return None


def flag(name: str) -> str:
    """Return the flag of a name.

    >>> flag("seq_length")
    '--seq-length'
    """
    return f"--{name.replace('_', '-')}"


def of_command_line(words: Sequence[Word], program: str, *, stack: str = "") -> Arguments:
    """Return the arguments of a command line.

    >>> line = [Word(text=t, source=f"args[{i}]") for i, t in enumerate(["--bf16", "--seq-length", "8"])]
    >>> of_command_line(line, "pretrain_gpt.py").settings.whole("seq_length")
    Found(value=8, source='args[1] --seq-length')
    """
    said = of_flags(words)
    settings: dict[str, Setting] = {}
    hidden = [word for word in _before_options(words) if not word.is_known]
    for name, setting in said.items():
        behind = setting.said
        taken = 0 if name in SWITCHES else 1
        if isinstance(behind, tuple) and name not in _LISTS:
            strays = behind[taken:] if name in SWITCHES or len(behind) > 1 else _options(behind)
            hidden.extend(word for word in strays if not word.is_known)
            kept = tuple(word for word in behind if word not in strays)
            settings[name] = Setting(said=kept, source=setting.source)
        else:
            settings[name] = setting
    return Arguments(
        settings=Settings(settings), program=program, hidden=tuple(hidden), stack=stack
    )


def _before_options(words: Sequence[Word]) -> tuple[Word, ...]:
    first = next((i for i, word in enumerate(words) if word.text.startswith("-")), len(words))
    return tuple(words[:first])


def _options(behind: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return words that are a variable named as if it held options: ``$EXTRA_ARGS``."""
    return tuple(
        word
        for word in behind
        if len(word.unresolved) == 1
        and word.text.strip('"') == word.unresolved[0]
        and _OPTIONS_INSIDE.search(word.text)
    )


_SECTIONS = (
    "model",
    "language_model",
    "model_parallel",
    "transformer",
    "train",
    "optimizer",
    "ddp",
    "dist",
    "dataset",
    "tokenizer",
    "checkpoint",
)
"""Objects of a configuration whose entries count as its own; earlier ones win.

Source: Megatron-LM ``training/config/container.py`` and ``yaml_arguments.py``; Megatron-Bridge
``training/config.py`` has the same names.
"""

_OTHER_NAMES = {
    "num_moe_experts": "num_experts",
    "sequence_length": "seq_length",
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "virtual_pipeline_model_parallel_size": "num_virtual_stages_per_pipeline_rank",
    "fp8_param": "fp8_param_gather",
    "fp4_param": "fp4_param_gather",
    "fp8": "fp8_format",
    "fp4": "fp4_format",
    "bucket_size": "ddp_bucket_size",
}
"""Fields of the dataclasses whose arguments are called otherwise."""


def of_config(config: Mapping[str, Any], name: str, *, stack: str = "") -> Arguments:
    """Return the arguments of a configuration: fields by name, alone or in sections."""
    flat: dict[str, Setting] = dict(of_document(_scalars(config), name).items())
    for section in _SECTIONS:
        entries = config.get(section)
        if isinstance(entries, Mapping):
            within = f"{name}: {section}" if name else section
            for key, said in _scalars(entries).items():
                flat.setdefault(key.replace("-", "_"), Setting(said=said, source=f"{within}.{key}"))
    for field, dest in _OTHER_NAMES.items():
        if field in flat:
            flat.setdefault(dest, flat[field])
    return Arguments(settings=Settings(flat), stack=stack)


def _scalars(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that say something and are no objects."""
    return {
        str(key): said
        for key, said in entries.items()
        if said is not None and not isinstance(said, Mapping)
    }
