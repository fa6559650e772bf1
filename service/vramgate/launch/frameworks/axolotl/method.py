"""What trains under axolotl: adapter, its LoRA, how the frozen base is stored, and the task.

Sources: axolotl 0.19.0 ``utils/schemas/peft.py``, ``utils/schemas/enums.py``, ``loaders/model.py``
(``_set_quantization_config``), ``loaders/adapter.py``, ``core/builders/rl.py``.
"""

from vramgate.costmodel.job import Dtype, MethodKind, Task
from vramgate.jobs.lora_targets import ALL_LINEAR
from vramgate.jobs.vocabulary import Quantization
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.adapters import LoraWords, say_lora, say_saved_adapter
from vramgate.launch.frameworks.tuners import chosen, is_on, nested, say_unknown
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found
from vramgate.launch.settings import Settings

_WORDS = LoraWords(rank=("lora_r",), dora=("peft_use_dora",))
_TASKS = {
    "dpo": Task.DPO,
    "ipo": Task.DPO,
    "kto": Task.KTO,
    "orpo": Task.ORPO,
    "simpo": Task.SIMPO,
}
_OTHER_TASKS = ("grpo", "gdpo", "ebft")
_CLASSES = {
    "automodelforsequenceclassification": Task.CLASSIFICATION,
    "automodelfortokenclassification": Task.CLASSIFICATION,
}
_ADAPTERS = frozenset({"lora", "qlora"})


def say_method(settings: Settings, context: Context) -> None:
    """Say task and method."""
    draft = context.draft
    _say_task(settings, draft)
    adapter = settings.text("adapter")
    if not isinstance(adapter, Found):
        draft.say("method.kind", adapter)
        _say_unfrozen(settings, draft)
        return
    kind = adapter.value.lower()
    if kind not in _ADAPTERS:
        draft.warn("method_unknown_to_the_model", f"{adapter.value} adapters are not estimated.")
        say_unknown(
            "method",
            adapter,
            draft,
            reason=f"{adapter.value} is no method that is estimated",
            hint="describe the job with LoRA of as many parameters",
        )
        return
    _say_base(kind, adapter, settings, draft)
    _say_adapters(settings, context)


def _say_task(settings: Settings, draft: Draft) -> None:
    rl = chosen(settings.text("rl"), (*_TASKS, *_OTHER_TASKS))
    if isinstance(rl, Found) and rl.value in _TASKS:
        draft.say("task", Found(_TASKS[rl.value], rl.source))
        return
    if isinstance(rl, Found):
        draft.warn(
            "task_unknown_to_the_model",
            f"{rl.value} generates completions as it trains; the estimate does not know it.",
        )
        say_unknown(
            "task",
            rl,
            draft,
            reason=f"{rl.value} is no task that is estimated",
            hint="estimate the policy's own step as sft and add what generates",
        )
        return
    draft.say("task", rl)
    for name, task in (
        ("reward_model", Task.REWARD),
        ("process_reward_model", Task.CLASSIFICATION),
    ):
        flag = settings.flag(name)
        if isinstance(flag, Found) and flag.value:
            draft.say("task", Found(task, flag.source))
            return
    _say_task_of_class(settings, draft)
    pretraining = settings.value("pretraining_dataset")
    if isinstance(pretraining, Found) and pretraining.value:
        draft.say("task", Found(Task.PRETRAIN, pretraining.source))


def _say_task_of_class(settings: Settings, draft: Draft) -> None:
    of_class = settings.text("type_of_model", "model_type")
    if isinstance(of_class, Found) and of_class.value.lower() in _CLASSES:
        draft.say("task", Found(_CLASSES[of_class.value.lower()], of_class.source))


def _say_unfrozen(settings: Settings, draft: Draft) -> None:
    parts = settings.value("unfrozen_parameters")
    if isinstance(parts, Found) and parts.value:
        draft.warn(
            "method_unknown_to_the_model",
            "unfrozen_parameters trains what matches its patterns; that is not estimated.",
        )
        say_unknown(
            "method",
            parts,
            draft,
            reason="which parameters train is said by patterns",
            hint="describe it as method full, an upper bound, or as freeze with its layers",
        )


def _say_base(kind: str, adapter: Found[str], settings: Settings, draft: Draft) -> None:
    """Say how the frozen weights are stored.

    ``loaders/model.py``: 4 bits with adapter qlora, 8 bits with adapter lora, nothing else.
    """
    four, eight = settings.flag("load_in_4bit"), settings.flag("load_in_8bit")
    gptq = settings.flag("gptq")
    if kind == "qlora" and is_on(four):
        draft.say("method.kind", Found(MethodKind.QLORA, adapter.source))
        options = nested(settings, "bnb_config_kwargs")
        draft.say(
            "method.quantization",
            chosen(options.text("bnb_4bit_quant_type"), (Quantization.NF4, Quantization.FP4)),
        )
        draft.say("method.double_quant", options.flag("bnb_4bit_use_double_quant"))
    elif kind == "lora" and isinstance(eight, Found) and eight.value:
        draft.say("method.kind", Found(MethodKind.QLORA, adapter.source))
        draft.say("method.quantization", Found(Quantization.INT8, eight.source))
    elif isinstance(gptq, Found) and gptq.value:
        draft.say("method.kind", Found(MethodKind.QLORA, adapter.source))
        draft.say("method.quantization", Found(Quantization.GPTQ_INT4, gptq.source))
    else:
        draft.say("method.kind", Found(MethodKind(kind), adapter.source))
        _warn_of_ignored_bits(settings, draft)
    _say_stored(settings, draft)


def _warn_of_ignored_bits(settings: Settings, draft: Draft) -> None:
    four = settings.flag("load_in_4bit")
    if isinstance(four, Found) and four.value:
        draft.warn(
            "load_in_4bit_ignored",
            "adapter lora with load_in_4bit loads the weights unquantised: axolotl 0.19 reads"
            " load_in_4bit with adapter qlora only. Older releases quantised them.",
        )


def _say_stored(settings: Settings, draft: Draft) -> None:
    stored = settings.text("model_quantization_config")
    if not isinstance(stored, Found):
        return
    options = nested(settings, "model_quantization_config_kwargs")
    if is_on(options.flag("dequantize")):
        return
    if stored.value == "Mxfp4Config":
        draft.say("method.quantization", Found(Quantization.MXFP4, stored.source))
        return
    draft.warn("storage_unknown_to_the_model", f"{stored.value} weights are not estimated.")
    say_unknown(
        "method.quantization",
        stored,
        draft,
        reason=f"{stored.value} is no storage that is estimated",
        hint="name the known format whose bytes are closest with VRAMGATE_QUANTIZATION",
    )


def _say_adapters(settings: Settings, context: Context) -> None:
    draft = context.draft
    say_lora(settings, draft, words=_WORDS)
    every = settings.flag("lora_target_linear")
    if isinstance(every, Found) and every.value:
        draft.say("method.target_modules", Found(ALL_LINEAR, every.source))
    in_fp32 = settings.flag("peft_autocast_adapter_dtype")
    if isinstance(in_fp32, Found) and not in_fp32.value:
        draft.say("method.adapter_dtype", Found(Dtype.BF16, in_fp32.source))
    loaded = settings.text("lora_model_dir")
    if isinstance(loaded, Found):
        say_saved_adapter(loaded.value, loaded.source, context)
    _warn_of_parts(settings, draft)


def _warn_of_parts(settings: Settings, draft: Draft) -> None:
    """Warn of adapters that differ from module to module, and of what runs beside them."""
    for name, what in (
        ("peft_layers_to_transform", "adapts some layers; the estimate adapts all"),
        (
            "lora_target_parameters",
            "adapts parameters that no module holds; they are not estimated",
        ),
        ("lora_rank_pattern", "gives modules ranks of their own; the estimate has one rank"),
        ("relora", "merges adapters as it trains, which holds a second copy for a moment"),
        ("lora_on_cpu", "loads adapters in host memory; the estimate loads them on the card"),
        ("qlora_sharded_model_loading", "loads layer by layer; the estimate loads whole"),
    ):
        said = settings.value(name)
        if isinstance(said, Found) and said.value not in (None, False, "false"):
            draft.warn(name, f"{said.source} {what}.")
