"""What each framework offers: losses, kernels, checkpointing, adapters, optimizers.

Whether a job of this framework can be changed so at all. Each table names its source; README.md has
the versions.
"""

from collections.abc import Mapping

from vramgate.costmodel.job import Loss, OptimizerName, Task
from vramgate.jobs.vocabulary import FusedKernel

_LANGUAGE = frozenset({Task.PRETRAIN, Task.SFT})

LOSSES: Mapping[str, tuple[Loss, frozenset[Task]]] = {
    # Liger under a Trainer (use_liger_kernel, enable_liger_kernel, the liger plugin) or called in a
    # loop of one's own. LLaMA-Factory and ms-swift keep whole logits in preference training.
    "transformers": (Loss.FUSED_LINEAR, _LANGUAGE),
    "llama_factory": (Loss.FUSED_LINEAR, _LANGUAGE),
    "axolotl": (Loss.FUSED_LINEAR, _LANGUAGE),
    "ms-swift": (Loss.FUSED_LINEAR, _LANGUAGE),
    "accelerate": (Loss.FUSED_LINEAR, _LANGUAGE),
    "torch": (Loss.FUSED_LINEAR, _LANGUAGE),
    "deepspeed": (Loss.FUSED_LINEAR, _LANGUAGE),
    # TRL docs/source/liger_kernel_integration.md.
    "trl": (Loss.FUSED_LINEAR, _LANGUAGE | {Task.DPO, Task.KTO}),
    # torchtune modules/loss: CEWithChunkedOutputLoss, LinearCrossEntropyLoss.
    "torchtune": (Loss.CHUNKED, frozenset({Task.SFT})),
    # litgpt finetune/lora.py lm_head_chunk_size; pretrain.py chunked_cross_entropy.
    "litgpt": (Loss.CHUNKED, _LANGUAGE),
    # Megatron-LM --cross-entropy-loss-fusion; llm-foundry loss_fn fused_crossentropy.
    "megatron": (Loss.FUSED, _LANGUAGE),
    "composer": (Loss.FUSED, _LANGUAGE),
}
"""The leanest loss of a framework, and the tasks it is for."""

LIGER_FRAMEWORKS = frozenset(
    name for name, (loss, _) in LOSSES.items() if loss is Loss.FUSED_LINEAR
)
LIGER_SINCE = (4, 45)
"""transformers' first release with ``use_liger_kernel`` (``training_args.py``)."""
LIGER_KERNELS = (FusedKernel.RMS_NORM, FusedKernel.ROPE, FusedKernel.SWIGLU)
"""What ``apply_liger_kernel_to_llama`` and its like replace beside the loss."""
LIGER_MODELS = frozenset(
    [
        "deepseek_v3",
        "exaone4",
        "falcon_h1",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "gemma4",
        "gemma4_text",
        "glm4",
        "glm4v",
        "glm4v_moe",
        "gpt_oss",
        "granite",
        "hunyuan_v1_dense",
        "hunyuan_v1_moe",
        "internvl",
        "llama",
        "llama4",
        "llama4_text",
        "llava",
        "ministral",
        "mistral",
        "mixtral",
        "mllama",
        "mllama_text_model",
        "nemotron",
        "olmo2",
        "olmo3",
        "paligemma",
        "phi3",
        "pixtral",
        "qwen2",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "qwen2_vl",
        "qwen2_vl_text",
        "qwen3",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_moe",
        "qwen3_next",
        "qwen3_vl",
        "qwen3_vl_moe",
        "qwen3_vl_moe_text",
        "qwen3_vl_text",
        "smollm3",
        "smolvlm",
    ]
)
"""Model types with kernels: Liger-Kernel ``transformers/monkey_patch.py`` MODEL_TYPE_TO_APPLY_LIGER_FN."""

FLASH_FRAMEWORKS = frozenset({"megatron", "composer"})
"""Own attention code whose lean form is flash attention: Transformer Engine's, llm-foundry's."""
OWN_MODELS = frozenset({"torchtitan", "torchtune", "litgpt"})
"""Frameworks whose own model code reads sdpa."""

SELECTIVE: Mapping[str, tuple[str, ...]] = {
    "megatron": ("core_attn",),
    "torchtitan": (),
}
"""What selective checkpointing recomputes: Megatron-LM ``--recompute-modules``; torchtitan chooses operations."""
OFFLOADS_CHECKPOINTS = frozenset({"unsloth", "llama_factory", "axolotl", "trl", "torchtune"})
"""``use_gradient_checkpointing="unsloth"``, ``use_unsloth_gc``, ``gradient_checkpointing: offload``,
``activation_offloading``, ``enable_activation_offloading``."""

ADAPTERS = frozenset(
    [
        "transformers",
        "accelerate",
        "trl",
        "llama_factory",
        "axolotl",
        "ms-swift",
        "unsloth",
        "torch",
        "deepspeed",
        "torchtune",
        "litgpt",
        "composer",
        "fsdp_qlora",
    ]
)
"""Frameworks with LoRA of their own or through peft."""

SMALL_STATES: Mapping[OptimizerName, tuple[OptimizerName, ...]] = {
    OptimizerName.ADAMW: (OptimizerName.ADAMW_8BIT, OptimizerName.PAGED_ADAMW_8BIT),
    OptimizerName.ADAMW_8BIT: (OptimizerName.PAGED_ADAMW_8BIT,),
    OptimizerName.LION: (OptimizerName.LION_8BIT, OptimizerName.PAGED_LION_8BIT),
    OptimizerName.LION_8BIT: (OptimizerName.PAGED_LION_8BIT,),
    OptimizerName.GALORE_ADAMW: (OptimizerName.GALORE_ADAMW_8BIT,),
}
"""The same optimizer with smaller states on the card (bitsandbytes ``optim``)."""
BITSANDBYTES_FRAMEWORKS = ADAPTERS - {"composer", "fsdp_qlora"}
"""Frameworks that take bitsandbytes' optimizers by name or as a class."""
