"""What trains under LLaMA-Factory: finetuning_type, its adapters, and how the frozen base is stored.

Sources: llamafactory 0.9.5 ``hparams/finetuning_args.py``, ``hparams/model_args.py``,
``model/adapter.py``, ``model/model_utils/quantization.py``.
"""

from vramgate.costmodel.job import MethodKind, Task
from vramgate.jobs.vocabulary import Quantization
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.adapters import LoraWords, say_lora, say_saved_adapter
from vramgate.launch.frameworks.tuners import chosen, is_on, say_unknown
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Settings

OFT = "oft"
_KINDS = ("lora", "full", "freeze", OFT)
_STAGES = ("sft", "pt", "rm", "ppo", "dpo", "kto")
_TASKS = {
    "sft": Task.SFT,
    "pt": Task.PRETRAIN,
    "rm": Task.REWARD,
    "dpo": Task.DPO,
    "kto": Task.KTO,
}
_PAIR_TASKS = {"orpo": Task.ORPO, "simpo": Task.SIMPO}
_WORDS = LoraWords(
    rank=("lora_rank",),
    targets=("lora_target",),
    every_linear=("all",),
    modules_to_save=("additional_target",),
)
_BITSANDBYTES = frozenset({"bnb", "bitsandbytes"})
_FOUR_BITS, _EIGHT_BITS = 4, 8


def say_method(settings: Settings, context: Context) -> str:
    """Say task and method; return finetuning_type as it is in effect (lora where nobody says it)."""
    draft = context.draft
    _say_task(settings, draft)
    said = chosen(settings.text("finetuning_type"), _KINDS)
    kind = said.value if isinstance(said, Found) else "lora"
    if kind == OFT:
        _say_oft(said, draft)
        return kind
    bits = _is_quantized(settings)
    if bits is not None and kind == "lora":
        draft.say("method.kind", Found(MethodKind.QLORA, bits.source))
        _say_quantization(settings, bits, draft)
    elif isinstance(said, Found):
        draft.say("method.kind", Found(MethodKind(said.value), said.source))
    else:
        draft.say("method.kind", said)
    if kind == "lora":
        _say_adapters(settings, context)
    elif kind == "freeze":
        _say_freeze(settings, draft)
    _warn_of_parts(settings, draft)
    return kind


def _say_task(settings: Settings, draft: Draft) -> None:
    stage = chosen(settings.text("stage"), _STAGES)
    if not isinstance(stage, Found):
        draft.say("task", stage)
        return
    loss = settings.text("pref_loss")
    if stage.value == "dpo" and isinstance(loss, Found) and loss.value in _PAIR_TASKS:
        draft.say("task", Found(_PAIR_TASKS[loss.value], loss.source))
    elif stage.value in _TASKS:
        draft.say("task", Found(_TASKS[stage.value], stage.source))
    else:
        draft.warn(
            "task_unknown_to_the_model",
            "PPO holds a reward model and generates; the estimate knows neither.",
        )
        say_unknown(
            "task",
            stage,
            draft,
            reason=f"{stage.value} is no task that is estimated",
            hint="estimate the policy's own step as sft and add the other models",
        )


def _say_oft(said: Reading[str], draft: Draft) -> None:
    draft.warn("method_unknown_to_the_model", "Orthogonal adapters (OFT) are not estimated.")
    if isinstance(said, Found):
        say_unknown(
            "method",
            said,
            draft,
            reason="oft is no method that is estimated",
            hint="describe the job with LoRA of as many parameters",
        )


def _is_quantized(settings: Settings) -> Found[int] | None:
    bits = settings.whole("quantization_bit")
    return bits if isinstance(bits, Found) else None


def _say_quantization(settings: Settings, bits: Found[int], draft: Draft) -> None:
    method = settings.text("quantization_method")
    if isinstance(method, Found) and method.value.lower() not in _BITSANDBYTES:
        say_unknown(
            "method.quantization",
            method,
            draft,
            reason=f"weights stored by {method.value} are not known here",
            hint="name the known format whose bytes are closest with VRAMGATE_QUANTIZATION",
        )
        return
    if bits.value == _EIGHT_BITS:
        draft.say("method.quantization", Found(Quantization.INT8, bits.source))
    elif bits.value == _FOUR_BITS:
        draft.say(
            "method.quantization",
            chosen(settings.text("quantization_type"), (Quantization.NF4, Quantization.FP4)),
        )
        draft.say("method.double_quant", settings.flag("double_quantization"))
    if is_on(settings.flag("upcast_layernorm")):
        draft.warn(
            "upcast_layernorm",
            "upcast_layernorm raises the norms' weights to fp32, and with them what they put out;"
            " the estimate leaves them as they load.",
        )


def _say_adapters(settings: Settings, context: Context) -> None:
    draft = context.draft
    say_lora(settings, draft, words=_WORDS)
    loaded = settings.text("adapter_name_or_path", "checkpoint_dir")
    if isinstance(loaded, Found) and not is_on(settings.flag("create_new_adapter")):
        say_saved_adapter(loaded.value.rpartition(",")[2].strip(), loaded.source, context)
    resized = settings.flag("resize_vocab")
    if isinstance(resized, Found) and resized.value and "additional_target" not in settings:
        # model/adapter.py: input and output embeddings become modules_to_save.
        say_unknown(
            "method.modules_to_save",
            resized,
            draft,
            reason="embeddings and head of the resized vocabulary train whole",
            hint="name them in additional_target: embed_tokens,lm_head",
        )
    if is_on(settings.flag("use_llama_pro")):
        draft.warn(
            "llama_pro", "use_llama_pro adapts the expanded blocks only; the estimate adapts all."
        )


def _say_freeze(settings: Settings, draft: Draft) -> None:
    layers = settings.whole("freeze_trainable_layers", "num_layer_trainable")
    if isinstance(layers, Found) and layers.value < 1:
        say_unknown(
            "method.trainable_layers",
            layers,
            draft,
            reason="a negative number trains the first layers, and backward runs through all",
            hint="estimate it as method full, which is an upper bound",
        )
    else:
        draft.say("method.trainable_layers", layers)
    for name in ("freeze_trainable_modules", "freeze_extra_modules"):
        modules = settings.text(name)
        if isinstance(modules, Found) and modules.value.strip() != "all":
            draft.warn(
                "freeze_modules",
                f"{modules.source} trains other parts than the last layers whole; the estimate"
                " trains those.",
            )


def _warn_of_parts(settings: Settings, draft: Draft) -> None:
    """Warn of what changes the parameters or which of them train, and no job can say."""
    for name in ("freeze_vision_tower", "freeze_multi_modal_projector"):
        frozen = settings.flag(name)
        if isinstance(frozen, Found) and not frozen.value:
            draft.warn(
                "multimodal_parts",
                f"{frozen.source} trains parts around the language model that the estimate may not"
                " hold.",
            )
    if is_on(settings.flag("freeze_language_model")):
        draft.warn(
            "multimodal_parts", "freeze_language_model trains the other parts only: estimated less."
        )
    added = settings.text("add_tokens", "add_special_tokens", "new_special_tokens_config")
    if is_on(settings.flag("resize_vocab")) or isinstance(added, Found):
        draft.warn(
            "resized_vocabulary",
            "The vocabulary is resized to the tokenizer's; the estimate has the model's own.",
        )
    if isinstance(settings.text("mixture_of_depths"), Found):
        draft.warn("mixture_of_depths", "Mixture-of-depths is not estimated.")
