"""transformers' ``TrainingArguments`` to fields of the job, for the Trainer and all that derive from it.

Sources: transformers 4.45.2 and 5.24.0 ``training_args.py``, ``trainer.py``, ``trainer_optimizer.py``,
``modeling_utils.py`` (``activation_checkpointing_enable``), ``integrations/liger.py``; Liger-Kernel
0.8 ``transformers/monkey_patch.py`` (what ``apply_liger_kernel_to_llama`` and its like switch on).
"""

from collections.abc import Mapping

from vramgate.costmodel.job import CheckpointMode, Loss, Task
from vramgate.jobs.optimizer import PROJECTED
from vramgate.jobs.training import TASKS_WITHOUT_LOGITS
from vramgate.jobs.vocabulary import FusedKernel
from vramgate.launch.documents import UnreadableLaunchError, read_json
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.hugging_face.precision import Trained, say_precision
from vramgate.launch.frameworks.hugging_face.sharding import say_sharding
from vramgate.launch.frameworks.optimizers import say_momentum, say_optimizer
from vramgate.launch.frameworks.tuners import (
    at_least_one,
    first_said,
    is_on,
    nested,
    say_checkpointing_mode,
    say_sizes,
    say_trainer_rest,
)
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen, value_or
from vramgate.launch.settings import Setting, Settings

_EVAL_BATCH = 8
"""``per_device_eval_batch_size`` where nobody says it."""
# Liger's names by the kernels of the job; both gated activations are one kernel.
_KERNELS: Mapping[FusedKernel, tuple[str, ...]] = {
    FusedKernel.RMS_NORM: ("rms_norm",),
    FusedKernel.ROPE: ("rope",),
    FusedKernel.SWIGLU: ("swiglu", "geglu"),
}
_OBJECTS = (
    "accelerator_config",
    "fsdp_config",
    "activation_checkpointing_kwargs",
    "gradient_checkpointing_kwargs",
    "liger_kernel_config",
    "model_init_kwargs",
)
_ANYPRECISION_OPTIONS = frozenset({"use_kahan_summation", "momentum_dtype", "variance_dtype"})


def say_trainer(settings: Settings, context: Context, run: Trained, *, task: Task | None) -> None:
    """Keep everything that the Trainer's own arguments say of the job."""
    draft = context.draft
    _check_objects(settings, draft)
    say_sizes(settings, draft, "per_device_train_batch_size", sequence_length="max_seq_length")
    # training_args.py, train_batch_size: the older name counts where it is given (gone in 5.0).
    draft.say("micro_batch_size", at_least_one(settings.whole("per_gpu_train_batch_size")))
    say_trainer_optimizer(settings, draft)
    say_checkpointing(settings, draft)
    say_trainer_rest(settings, draft)
    _say_compile(settings, draft)
    say_liger_kernels(settings, draft, task)
    say_precision(settings, draft, run)
    say_sharding(settings, context, stack=run.stack)
    _warn(settings, draft)


def _check_objects(settings: Settings, draft: Draft) -> None:
    """Refuse text in place of an object that is no JSON (``training_args.py``, _VALID_DICT_FIELDS)."""
    for name in _OBJECTS:
        said = settings.value(name)
        text = said.value.strip() if isinstance(said, Found) and isinstance(said.value, str) else ""
        if not (isinstance(said, Found) and text.startswith("{")):
            continue
        try:
            read_json(text, name)
        except UnreadableLaunchError:
            draft.misread(None, Misread(said.source, text, "a JSON object"))


def say_trainer_optimizer(settings: Settings, draft: Draft) -> None:
    """Keep ``optim`` with what ``optim_args`` change of it."""
    old = settings.flag("adafactor")
    name = Found("adafactor", old.source) if isinstance(old, Found) and old.value else None
    said = name or settings.text("optim")
    say_optimizer(said, draft)
    if not isinstance(said, Found):
        return
    options = _optimizer_options(settings)
    if said.value == "sgd":
        say_momentum(options.number("momentum"), draft)
    if said.value == "adamw_anyprecision" and _ANYPRECISION_OPTIONS & set(options):
        source = options[min(_ANYPRECISION_OPTIONS & set(options))].source
        draft.forget("optimizer")
        draft.unknown("optimizer", Unseen(source, "its states have formats of their own", ""))
    found = draft.said("optimizer.name")
    if found is not None and found.value in {one.value for one in PROJECTED}:
        draft.say("optimizer.rank", options.whole("rank"))
        _check_projected(settings, said, draft)


def _optimizer_options(settings: Settings) -> Settings:
    """Return ``optim_args``: ``rank=64, update_proj_gap=100``."""
    reading = settings.texts("optim_args")
    options: dict[str, Setting] = {}
    for text in value_or(reading, ()):
        name, equals, value = text.partition("=")
        if equals:
            source = f"{settings['optim_args'].source} {name.strip()}"
            options[name.strip()] = Setting(said=value.strip(), source=source)
    return Settings(options)


def _check_projected(settings: Settings, optim: Found[str], draft: Draft) -> None:
    """Refuse what ``_setup_low_rank_optimizer`` refuses of GaLore and APOLLO."""
    if settings.text("optim_target_modules") is None and settings.texts("optim_target_modules") in (
        None,
        Found((), optim.source),
    ):
        draft.problem(
            Problem(
                rule="optim_target_modules_missing",
                detail=f"{optim.value} needs optim_target_modules: the layers it projects",
                fix='name them, or write "all-linear"',
                values={optim.source: optim.value},
                field="optimizer.name",
            )
        )
    steps = settings.whole("gradient_accumulation_steps")
    if optim.value.endswith("layerwise") and isinstance(steps, Found) and steps.value > 1:
        draft.problem(
            Problem(
                rule="layerwise_with_accumulation",
                detail=f"{optim.value} steps in each backward pass and cannot accumulate",
                fix="set gradient_accumulation_steps to 1",
                values={optim.source: optim.value, steps.source: steps.value},
                field="gradient_accumulation_steps",
            )
        )


def say_checkpointing(settings: Settings, draft: Draft) -> None:
    """Keep activation checkpointing; the new name counts before the old one (5.23 on)."""
    switch = first_said(
        settings.flag(name) for name in ("activation_checkpointing", "gradient_checkpointing")
    )
    if isinstance(switch, Found):
        mode = CheckpointMode.FULL if switch.value else CheckpointMode.NONE
        if not say_checkpointing_mode(Found(mode, switch.source), draft):
            return
    else:
        draft.say("activation_checkpointing.mode", switch)
    kwargs = nested(settings, "activation_checkpointing_kwargs")
    if not len(kwargs):
        kwargs = nested(settings, "gradient_checkpointing_kwargs")
    draft.say("activation_checkpointing.reentrant", kwargs.flag("use_reentrant"))
    offload = kwargs.flag("offload")
    if is_on(offload):
        draft.say("activation_checkpointing.offload", offload)
    _note_some_layers(kwargs.whole("every_n_layers"), draft)


def _note_some_layers(reading: Reading[int], draft: Draft) -> None:
    """Say that some layers keep their activations: a job cannot (its every_n_layers joins layers)."""
    if not isinstance(reading, Found) or reading.value <= 1:
        return
    draft.unknown(
        "activation_checkpointing",
        Unseen(
            reading.source,
            f"one layer in {reading.value} is checkpointed, the others keep their activations",
            "describe the job with VRAMGATE_ACTIVATION_CHECKPOINTING none for an upper bound",
        ),
    )


def _say_compile(settings: Settings, draft: Draft) -> None:
    """Say what switches torch.compile on beside its own flag."""
    for name in ("torch_compile_backend", "torch_compile_mode", "torchdynamo"):
        said = settings.text(name)
        if isinstance(said, Found):
            draft.say("compile", Found(value=True, source=said.source))


def say_liger_kernels(settings: Settings, draft: Draft, task: Task | None) -> None:
    """Keep the kernels that Liger puts in place, and its loss where the task has one."""
    switch = settings.flag("use_liger_kernel", "use_liger")
    if not isinstance(switch, Found):
        draft.say("fused_kernels", switch)
        return
    if not switch.value:
        return
    config = nested(settings, "liger_kernel_config")
    kernels = [
        kernel
        for kernel, names in _KERNELS.items()
        if all(value_or(config.flag(name), default=True) for name in names)
    ]
    own_loss = is_on(config.flag("cross_entropy"))
    linear = value_or(config.flag("fused_linear_cross_entropy"), not own_loss)
    if own_loss:
        kernels.append(FusedKernel.CROSS_ENTROPY)
    draft.say("fused_kernels", Found(tuple(kernels), switch.source))
    if task in TASKS_WITHOUT_LOGITS or not (linear or own_loss):
        return
    draft.say("loss", Found(Loss.FUSED_LINEAR if linear else Loss.FUSED, switch.source))


def _warn(settings: Settings, draft: Draft) -> None:
    """Name what changes the peak in ways that a job cannot say."""
    steps = settings.whole("torch_empty_cache_steps")
    if isinstance(steps, Found):
        draft.warn(
            "torch_empty_cache_steps",
            f"The allocator's cache is emptied every {steps.value} steps: the card shows less in"
            " use than the estimate of reserved bytes.",
        )
    backend = first_said(settings.text(name) for name in ("half_precision_backend", "fp16_backend"))
    if isinstance(backend, Found) and backend.value == "apex":
        draft.warn("apex_amp", "Apex's mixed precision was read as torch's autocast.")
    _warn_evaluation(settings, draft)


def _warn_evaluation(settings: Settings, draft: Draft) -> None:
    strategy = settings.text("eval_strategy", "evaluation_strategy")
    runs = isinstance(strategy, Found) and strategy.value.rpartition(".")[2].lower() != "no"
    if not runs and not is_on(settings.flag("eval_on_start")):
        return
    said = settings.whole("per_gpu_eval_batch_size")
    rows = value_or(said or settings.whole("per_device_eval_batch_size"), _EVAL_BATCH)
    trained = draft.said("micro_batch_size")
    if trained is not None and isinstance(trained.value, int) and rows > trained.value:
        draft.warn(
            "evaluation_may_peak",
            f"Evaluation runs {rows} rows on each device, training {trained.value}: its logits may"
            " take more than a training step.",
        )
