"""DeepSpeed's batch rule, and Hugging Face's demand that both sides say the same.

Sources: DeepSpeed 0.19.8 ``runtime/config.py``: ``_set_batch_related_parameters``,
``_batch_assertion``; transformers 5.24.0 ``integrations/deepspeed.py``: ``fill_match``,
``trainer_config_process``, ``trainer_config_finalize``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.deepspeed.file import AUTO, DeepSpeedFile
from vramgate.launch.frameworks.tuners import at_least_one
from vramgate.launch.reading import Found, Misread, Reading, Unseen, value_or
from vramgate.launch.settings import Settings

MICRO, STEPS, BATCH = (
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "train_batch_size",
)
MICRO_FIELD, STEPS_FIELD = "micro_batch_size", "gradient_accumulation_steps"

# transformers 5.24.0 training_args.py: what a Trainer's field is where nobody says it.
_TRAINER_DEFAULTS: Mapping[str, int | bool] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "bf16": False,
    "fp16": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The three sizes of DeepSpeed's batch rule as far as they are said."""

    micro: Reading[int]
    steps: Reading[int]
    batch: Reading[int]


def sizes_of(file: DeepSpeedFile) -> Sizes:
    """Return the sizes that a configuration states; ``"auto"`` states nothing."""
    stated = Settings({name: one for name, one in file.settings().items() if one.said != AUTO})
    return Sizes(
        micro=at_least_one(stated.whole(MICRO)),
        steps=at_least_one(stated.whole(STEPS)),
        batch=at_least_one(stated.whole(BATCH)),
    )


def say_batch(sizes: Sizes, draft: Draft) -> None:
    """Say micro-batch and accumulation, the missing one derived where the devices are known."""
    draft.say(MICRO_FIELD, sizes.micro)
    draft.say(STEPS_FIELD, sizes.steps)
    if isinstance(sizes.batch, Misread):
        draft.misread(MICRO_FIELD, sizes.batch)
    elif isinstance(sizes.batch, Found):
        _derive(sizes, sizes.batch, draft)


def _derive(sizes: Sizes, batch: Found[int], draft: Draft) -> None:
    ranks = batch_ranks(draft)
    if ranks is None:
        _name_open(sizes, batch, draft)
        return
    micro, steps = sizes.micro, sizes.steps
    if isinstance(micro, Found) and steps is None and micro.value > 0:
        steps = Found(batch.value // micro.value // ranks, batch.source)
        draft.say(STEPS_FIELD, steps)
    elif micro is None:
        divisor = max(1, value_or(steps, 1))
        micro = Found(batch.value // ranks // divisor, batch.source)
        draft.say(MICRO_FIELD, micro)
        steps = steps or Found(1, "DeepSpeed (gradient_accumulation_steps 1)")
    if isinstance(micro, Found) and isinstance(steps, Found):
        _check_product(micro, steps, batch, ranks, draft)


def _name_open(sizes: Sizes, batch: Found[int], draft: Draft) -> None:
    unseen = Unseen(
        batch.source,
        f"a train_batch_size of {batch.value} is split over devices whose number is not known",
        "give hardware.devices",
    )
    if sizes.micro is None:
        draft.unknown(MICRO_FIELD, unseen)
    elif sizes.steps is None:
        draft.unknown(STEPS_FIELD, unseen)


def batch_ranks(draft: Draft) -> int | None:
    """Return the ranks that DeepSpeed counts in its batch, where the devices are known.

    It takes ``sequence_parallel_size`` out; ranks that share tensors count like any other
    (``DeepSpeedConfig.__init__`` without an mpu).
    """
    devices = draft.said("hardware.devices")
    if devices is None:
        return None
    sequence = draft.said("parallelism.context_parallel_size")
    shared = int(sequence.value) if sequence is not None and sequence.value else 1
    return max(1, int(devices.value) // shared)


def _check_product(
    micro: Found[int], steps: Found[int], batch: Found[int], ranks: int, draft: Draft
) -> None:
    product = micro.value * steps.value * ranks
    if product == batch.value and product > 0:
        return
    draft.problem(
        Problem(
            rule="batch_product_mismatch",
            detail=f"train_batch_size {batch.value} is not {micro.value} × {steps.value} × {ranks}"
            f" = {product} (micro-batch × accumulation × ranks)",
            fix="leave one of the three out, or let them agree",
            values={
                batch.source: batch.value,
                micro.source: micro.value,
                steps.source: steps.value,
            },
            field=MICRO_FIELD,
        )
    )


def require_batch(file: DeepSpeedFile, sizes: Sizes, draft: Draft) -> None:
    """Report a configuration that states neither the batch nor the micro-batch; DeepSpeed asserts one."""
    if sizes.batch is None and sizes.micro is None:
        draft.problem(
            Problem(
                rule="batch_size_missing",
                detail=f"{file.prefix.rstrip(': .')} has neither {BATCH} nor {MICRO}",
                fix=f"give {MICRO}",
                values={one.source: one.value for one in (sizes.steps,) if isinstance(one, Found)},
                field=MICRO_FIELD,
            )
        )


def check_trainer(file: DeepSpeedFile, sizes: Sizes, trainer: Settings, draft: Draft) -> None:
    """Report what a Trainer refuses: values of the file that its own arguments contradict."""
    pairs: list[tuple[Reading[int], str, str]] = [
        (sizes.micro, "per_device_train_batch_size", MICRO_FIELD),
        (sizes.steps, "gradient_accumulation_steps", STEPS_FIELD),
    ]
    for said, name, field in pairs:
        own = trainer.whole(name) or _default(name, draft)
        if isinstance(said, Found) and isinstance(own, Found) and said.value != own.value:
            _report_mismatch(said.source, said.value, own, field, draft)
    for name in ("bf16", "fp16"):
        enabled = file.section(name).flag("enabled")
        own_switch = trainer.flag(name)
        if own_switch is None:
            default = _default(name, draft)
            own_switch = None if default is None else Found(bool(default.value), default.source)
        if (
            isinstance(enabled, Found)
            and isinstance(own_switch, Found)
            and enabled.value != own_switch.value
        ):
            _report_mismatch(enabled.source, enabled.value, own_switch, "precision", draft)
    _check_batch(sizes, trainer, draft)


def _check_batch(sizes: Sizes, trainer: Settings, draft: Draft) -> None:
    micro = sizes.micro or trainer.whole("per_device_train_batch_size")
    steps = sizes.steps or trainer.whole("gradient_accumulation_steps")
    ranks = batch_ranks(draft)
    if not isinstance(sizes.batch, Found) or ranks is None:
        return
    if isinstance(micro, Found) and isinstance(steps, Found):
        _check_product(micro, steps, sizes.batch, ranks, draft)


def _default(name: str, draft: Draft) -> Found[int] | None:
    """Return a Trainer's default where the framework takes the Trainer's arguments as they are."""
    framework = draft.said("software.framework")
    if framework is None or framework.value != "transformers":
        return None
    return Found(int(_TRAINER_DEFAULTS[name]), f"transformers default ({name})")


def _report_mismatch(
    source: str, value: object, own: Found[int] | Found[bool], field: str, draft: Draft
) -> None:
    key = source.rpartition(" ")[2]
    draft.problem(
        Problem(
            rule="deepspeed_mismatch",
            detail=f"{source} is {value}, {own.source} is {own.value}; the Trainer wants both to agree",
            fix=f'write "auto" for {key}',
            values={source: value, own.source: own.value},
            field=field,
        )
    )
