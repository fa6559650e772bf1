"""What trains under ms-swift: the tuner, its LoRA, how the frozen base is stored, and the task.

Sources: ms-swift 4.6.0 ``arguments/tuner_args.py``, ``arguments/base_args/quant_args.py``,
``arguments/rlhf_args.py``, ``pipelines/train/tuner.py``; 2.6.1 ``llm/utils/argument.py``.
"""

from vramgate.costmodel.job import Dtype, MethodKind, Task
from vramgate.jobs.vocabulary import Quantization
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.adapters import target_modules
from vramgate.launch.frameworks.tuners import chosen, say_unknown
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.settings import Settings
from vramgate.launch.words import Word

_TUNER = ("tuner_type", "train_type", "sft_type")
_TARGETS = ("target_modules", "lora_target_modules")
_EVERY_LINEAR = ("all-linear", "ALL")
_BY_MODEL = frozenset({"DEFAULT", "AUTO"})
_MEANINGS = frozenset({"all-embedding", "all-norm", "EMBEDDING", "LN"})
_RLHF = {
    "dpo": Task.DPO,
    "orpo": Task.ORPO,
    "simpo": Task.SIMPO,
    "kto": Task.KTO,
    "rm": Task.REWARD,
}
_OTHER_RLHF = ("cpo", "ppo", "grpo", "gkd")
_TASK_TYPES = {
    "seq_cls": Task.CLASSIFICATION,
    "reranker": Task.CLASSIFICATION,
    "embedding": Task.EMBEDDING,
}
_OTHER_TASK_TYPES = ("generative_reranker", "decision")
_DTYPES = {
    "float32": Dtype.FP32,
    "bfloat16": Dtype.BF16,
    "float16": Dtype.FP16,
    "fp32": Dtype.FP32,
    "bf16": Dtype.BF16,
    "fp16": Dtype.FP16,
}
_FOUR_BITS, _EIGHT_BITS = 4, 8
_PREQUANTIZED = frozenset({"awq", "gptq", "gptq_v2", "aqlm"})


def say_method(settings: Settings, command: Word, context: Context) -> str:
    """Say task and method; return the tuner as it is in effect (lora where nobody says it)."""
    draft = context.draft
    _say_task(settings, command, draft)
    said = settings.text(*_TUNER)
    kind = said.value.lower() if isinstance(said, Found) else "lora"
    if kind == "longlora" and isinstance(said, Found):
        draft.warn("longlora", "longlora shifts attention; the estimate has it whole.")
        kind, said = "lora", Found("lora", said.source)
    if kind not in {"lora", "full"} and isinstance(said, Found):
        _say_other(said, draft)
        return kind
    bits = _bits(settings, draft)
    if bits is not None and kind == "lora":
        draft.say("method.kind", Found(MethodKind.QLORA, bits.source))
        _say_storage(settings, bits, draft)
    elif isinstance(said, Found):
        draft.say("method.kind", Found(MethodKind(kind), said.source))
    else:
        draft.say("method.kind", said)
    if kind == "lora":
        _say_adapters(settings, context)
    else:
        _say_frozen(settings, draft)
    return kind


def _say_task(settings: Settings, command: Word, draft: Draft) -> None:
    if command.text == "pt":
        draft.say("task", Found(Task.PRETRAIN, command.source))
    elif command.text == "rlhf":
        kind = chosen(settings.text("rlhf_type"), (*_RLHF, *_OTHER_RLHF))
        if kind is None:
            draft.assume("task", Task.DPO, "ms-swift default (rlhf_type)")
        _say_choice(kind, _RLHF, draft)
    _say_choice(
        chosen(settings.text("task_type"), ("causal_lm", *_TASK_TYPES, *_OTHER_TASK_TYPES)),
        _TASK_TYPES,
        draft,
    )


def _say_choice(said: Reading[str], tasks: dict[str, Task], draft: Draft) -> None:
    if not isinstance(said, Found):
        draft.say("task", said)
    elif said.value in tasks:
        draft.say("task", Found(tasks[said.value], said.source))
    elif said.value != "causal_lm":
        draft.warn("task_unknown_to_the_model", f"{said.value} is not estimated.")
        say_unknown(
            "task",
            said,
            draft,
            reason=f"{said.value} is no task that is estimated",
            hint="estimate the policy's own step as sft and add what else is on the card",
        )


def _say_other(said: Found[str], draft: Draft) -> None:
    draft.warn("method_unknown_to_the_model", f"The tuner {said.value} is not estimated.")
    say_unknown(
        "method",
        said,
        draft,
        reason=f"{said.value} is no method that is estimated",
        hint="describe the job with LoRA of as many parameters",
    )


def _bits(settings: Settings, draft: Draft) -> Found[int] | None:
    """Return the bits that weights are quantised to on loading.

    From 3.0 on quant_method must be there too; before it was bnb for 4 and 8 bits.
    """
    method = settings.text("quant_method")
    name = method.value.lower() if isinstance(method, Found) else None
    if name in _PREQUANTIZED:
        return None
    bits = settings.whole("quantization_bit", "quant_bits")
    if isinstance(bits, Found) and bits.value == 0:
        return None
    if name is None and isinstance(bits, Found) and "quantization_bit" not in settings:
        draft.warn(
            "quant_bits_ignored",
            f"{bits.source} has no effect without quant_method; nothing is quantised.",
        )
        return None
    if name == "fp8" and isinstance(method, Found):
        return Found(_EIGHT_BITS, method.source)
    return bits if isinstance(bits, Found) else None


def _say_storage(settings: Settings, bits: Found[int], draft: Draft) -> None:
    method = settings.text("quant_method")
    name = method.value.lower() if isinstance(method, Found) else "bnb"
    if name != "bnb" or bits.value not in {_FOUR_BITS, _EIGHT_BITS}:
        draft.warn("storage_unknown_to_the_model", f"Weights stored by {name} are not estimated.")
        say_unknown(
            "method.quantization",
            bits,
            draft,
            reason=f"{bits.value} bits by {name} are no storage that is estimated",
            hint="name the known format whose bytes are closest with VRAMGATE_QUANTIZATION",
        )
    elif bits.value == _EIGHT_BITS:
        draft.say("method.quantization", Found(Quantization.INT8, bits.source))
    else:
        draft.say(
            "method.quantization",
            chosen(settings.text("bnb_4bit_quant_type"), (Quantization.NF4, Quantization.FP4)),
        )
        draft.say("method.double_quant", settings.flag("bnb_4bit_use_double_quant"))


def _say_adapters(settings: Settings, context: Context) -> None:
    draft = context.draft
    draft.say("method.rank", settings.whole("lora_rank"))
    draft.say("method.dropout", settings.number("lora_dropout_p", "lora_dropout"))
    draft.say("method.dora", settings.flag("use_dora"))
    _say_targets(settings, draft)
    _say_saved(settings, draft)
    dtype = chosen(settings.text("lora_dtype"), (*_DTYPES, "auto"))
    if isinstance(dtype, Found):
        if dtype.value in _DTYPES:
            draft.say("method.adapter_dtype", Found(_DTYPES[dtype.value], dtype.source))
    else:
        draft.say("method.adapter_dtype", dtype)
    loaded = settings.texts("adapters")
    resumed = settings.text("resume_from_checkpoint")
    if isinstance(loaded, Found) and loaded.value and not isinstance(resumed, Found):
        _say_loaded(Found(loaded.value[-1], loaded.source), context)


def _say_loaded(loaded: Found[str], context: Context) -> None:
    """Name the rank of adapters that training goes on with: it is theirs."""
    unseen = Unseen(
        loaded.source,
        f"training goes on with the adapters in {loaded.value}, of their own rank and targets",
        "say their rank and targets in the job itself",
    )
    for field in ("method.rank", "method.target_modules"):
        context.draft.say(field, unseen)


def _say_targets(settings: Settings, draft: Draft) -> None:
    pattern = settings.text("target_regex", "lora_target_regex")
    if pattern is not None:
        draft.say("method.target_modules", pattern)
        return
    words = settings.texts(*_TARGETS)
    if isinstance(words, Found) and _BY_MODEL & set(words.value):
        return  # a table by model, which jobs has
    draft.say("method.target_modules", target_modules(settings, *_TARGETS, every=_EVERY_LINEAR))
    if isinstance(words, Found) and _MEANINGS & set(words.value):
        draft.warn(
            "embeddings_adapted", f"{words.source} adapts embeddings too, which is not estimated."
        )


def _say_saved(settings: Settings, draft: Draft) -> None:
    saved = settings.texts("modules_to_save", "lora_modules_to_save")
    if isinstance(saved, Found) and _MEANINGS & set(saved.value):
        say_unknown(
            "method.modules_to_save",
            saved,
            draft,
            reason=f"{' '.join(saved.value)} stand for modules that the model decides",
            hint="name them: embed_tokens lm_head",
        )
        return
    draft.say("method.modules_to_save", saved)


def _say_frozen(settings: Settings, draft: Draft) -> None:
    """Name a full tuner that trains parts of the model as what no job can say."""
    ratio = settings.number("freeze_parameters_ratio")
    parts = [
        settings.texts(name)
        for name in ("freeze_parameters", "trainable_parameters", "additional_trainable_parameters")
    ]
    if isinstance(ratio, Found) and ratio.value > 0:
        parts.append(Found((str(ratio.value),), ratio.source))
    said = next((part for part in parts if isinstance(part, Found) and part.value), None)
    layers = settings.whole("lisa_activated_layers")
    if isinstance(layers, Found) and layers.value > 0:
        said = Found((str(layers.value),), layers.source)
    if said is None:
        return
    draft.warn("method_unknown_to_the_model", f"{said.source} trains parts of the model.")
    say_unknown(
        "method",
        said,
        draft,
        reason="which parameters train is said by names or a share",
        hint="describe it as method full, an upper bound, or as freeze with its layers",
    )
