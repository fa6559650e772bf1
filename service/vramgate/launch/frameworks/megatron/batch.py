"""Batch sizes and length of Megatron-LM.

Sources: Megatron-LM ``training/arguments.py: validate_args`` and
``core/num_microbatches_calculator.py`` (d98e8a64): the global batch is the micro-batch size × data
parallel size × micro-batches; without ``--global-batch-size`` there is one micro-batch.
"""

import re

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.megatron.arguments import Arguments, flag
from vramgate.launch.reading import Found, Reading, Unseen

_LENGTHS = ("seq_length", "encoder_seq_length")
_SIZES = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "ds_sequence_parallel_size",
    "tensor_parallel_num_weight_shards",
)
_STEP = re.compile(r"[\d.]+[KMBT]?:(\d{1,9})$")


def say_batch(arguments: Arguments, draft: Draft) -> None:
    """Say micro-batch size, length and the micro-batches of a step."""
    micro = arguments.settings.whole("micro_batch_size")
    draft.say("micro_batch_size", micro)
    length = arguments.settings.whole(*_LENGTHS)
    draft.say("sequence_length", length)
    _check_required(arguments, draft)
    _check_length(arguments, length, draft)
    _say_accumulation(arguments, micro, draft)
    _warn_of_evaluation(arguments, micro, draft)


def _check_required(arguments: Arguments, draft: Draft) -> None:
    elsewhere = {"yaml_cfg", "use_checkpoint_args"} & set(arguments.settings)
    if not arguments.is_command_line or elsewhere:
        return
    for names, field in (
        (("micro_batch_size",), "micro_batch_size"),
        (_LENGTHS, "sequence_length"),
    ):
        if any(name in arguments.settings for name in names):
            continue
        missing = flag(names[0])
        if arguments.hidden:
            word = arguments.hidden[0]
            reason = f"{word.unresolved[0]} has no value here, and {missing} may be in it"
            hint = f"give {word.unresolved[0]} in launch.env"
            draft.unknown(field, Unseen(word.source, reason, hint))
        else:
            draft.problem(
                Problem(
                    rule="missing_argument",
                    detail=f"{missing} is missing",
                    fix=f"add {missing}",
                    values={arguments.program: None},
                    field=field,
                )
            )


def _check_length(arguments: Arguments, length: Reading[int], draft: Draft) -> None:
    longest = arguments.settings.whole("max_position_embeddings")
    if isinstance(length, Found) and isinstance(longest, Found) and length.value > longest.value:
        draft.problem(
            Problem(
                rule="sequence_over_positions",
                detail=f"seq-length {length.value} is more than max-position-embeddings"
                f" {longest.value}",
                fix=f"write --max-position-embeddings {length.value}",
                values={length.source: length.value, longest.source: longest.value},
                field="sequence_length",
            )
        )


def _say_accumulation(arguments: Arguments, micro: Reading[int], draft: Draft) -> None:
    whole = _global_batch(arguments, draft)
    if whole is None:
        said = {"global_batch_size", "step_batch_size_schedule"} & set(arguments.settings)
        if arguments.is_whole and isinstance(micro, Found) and not said:
            draft.assume(
                "gradient_accumulation_steps",
                1,
                "Megatron-LM default (--global-batch-size: micro-batch size × data parallel size)",
            )
        return
    field = "gradient_accumulation_steps"
    if not isinstance(whole, Found):
        draft.say(field, whole)
        return
    ranks = data_parallel_size(arguments, draft)
    if isinstance(ranks, Unseen):
        draft.say(field, Unseen(whole.source, ranks.reason, ranks.hint))
    elif isinstance(micro, Found) and ranks is not None:
        _say_steps(arguments, whole, micro, ranks, draft)
    elif isinstance(micro, Unseen):
        draft.say(field, micro)


def _global_batch(arguments: Arguments, draft: Draft) -> Reading[int]:
    """Return the global batch; of a batch that grows, the last."""
    settings = arguments.settings
    whole = settings.whole("global_batch_size")
    if "rampup_batch_size" in settings:
        draft.warn(
            "growing_batch",
            f"{settings['rampup_batch_size'].source}: the batch grows to the global batch size;"
            " its steps with fewer micro-batches hold no more.",
        )
    schedule = settings.text("step_batch_size_schedule")
    if schedule is None:
        return whole
    if isinstance(whole, Found) and isinstance(schedule, Found):
        draft.problem(
            Problem(
                rule="two_batch_sizes",
                detail="step-batch-size-schedule and global-batch-size exclude each other",
                fix="leave one of them out",
                values={whole.source: whole.value, schedule.source: schedule.value[:200]},
                field="gradient_accumulation_steps",
            )
        )
        return None
    return _largest_step(schedule, draft)


def _largest_step(schedule: Reading[str], draft: Draft) -> Reading[int]:
    if not isinstance(schedule, Found):
        return schedule
    steps = [_STEP.match(step) for step in schedule.value.strip("\"'").split()]
    sizes = [int(step[1]) for step in steps if step is not None]
    if not sizes:
        return None
    draft.warn("growing_batch", f"{schedule.source}: the largest of its batch sizes is taken.")
    return Found(max(sizes), schedule.source)


def data_parallel_size(arguments: Arguments, draft: Draft) -> int | Unseen | None:
    """Return the data-parallel ranks; None where the devices do not divide (reported elsewhere)."""
    hidden = arguments.unseen(*_SIZES)
    if hidden is not None:
        return hidden
    devices = draft.said("hardware.devices")
    if devices is None:
        return Unseen(
            "hardware.devices",
            "the number of processes is not visible, and the global batch is spread over them",
            "say it with the launcher's flags, or VRAMGATE_DEVICES",
        )
    model = 1
    for name in _SIZES[:4]:
        model *= max(1, arguments.size(name))
    weight_shards = arguments.size(_SIZES[4], default=0)
    tensor = max(1, arguments.size(_SIZES[0]))
    if weight_shards > tensor:
        model *= weight_shards // tensor
    count = int(devices.value)
    return count // model if count % model == 0 and count >= model else None


def _say_steps(
    arguments: Arguments, whole: Found[int], micro: Found[int], ranks: int, draft: Draft
) -> None:
    product = micro.value * ranks
    if product <= 0 or whole.value <= 0:
        return
    steps, rest = divmod(whole.value, product)
    if (rest and not arguments.on("decrease_batch_size_if_needed")) or steps == 0:
        draft.problem(
            Problem(
                rule="batch_product_mismatch",
                detail=f"global batch size {whole.value} is not divisible by micro-batch size"
                f" {micro.value} × data parallel size {ranks} = {product}",
                fix=f"write a global batch size of {product * max(1, steps)}"
                f" or {product * (steps + 1)}",
                values={whole.source: whole.value, micro.source: micro.value},
                field="gradient_accumulation_steps",
            )
        )
        return
    draft.say("gradient_accumulation_steps", Found(steps, whole.source))


def _warn_of_evaluation(arguments: Arguments, micro: Reading[int], draft: Draft) -> None:
    evaluation = arguments.settings.whole("eval_micro_batch_size")
    if (
        isinstance(evaluation, Found)
        and isinstance(micro, Found)
        and evaluation.value > micro.value
    ):
        draft.warn(
            "evaluation_not_counted",
            f"{evaluation.source} {evaluation.value} is more than micro-batch size {micro.value}:"
            " the peak of evaluation is not counted.",
        )
