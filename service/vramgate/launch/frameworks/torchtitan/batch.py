"""torchtitan's batch: rows a rank, their length, and the micro-batches of a step.

Sources: ``train.py`` of 0.2.2, ``trainer.py`` of 0.3.0; b5bcd76c counts tokens
(``config/configs.py``: num_tokens_per_microbatch_per_dp_rank, max_context_length,
num_tokens_per_train_step; num_pp_microbatches).
"""

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.torchtitan.parallel import Degrees, shards
from vramgate.launch.reading import Found, Reading, Unseen, value_or
from vramgate.launch.settings import Settings

_ROWS = ("training.local_batch_size", "training.batch_size")
_LENGTH = ("training.seq_len",)
_TOKENS = "training.num_tokens_per_microbatch_per_dp_rank"
_STEPS = "gradient_accumulation_steps"
_DEFAULT_ROWS = Found(8, "torchtitan default (local_batch_size)")


def say_batch(settings: Settings, degrees: Degrees, draft: Draft) -> None:
    """Keep the batch of any release."""
    tokens = settings.whole(_TOKENS)
    if tokens is None:
        _say_rows(settings, degrees, draft)
    else:
        _say_tokens(tokens, settings, degrees, draft)


def _say_rows(settings: Settings, degrees: Degrees, draft: Draft) -> None:
    """With a pipeline a rank's rows are cut into micro-batches of pipeline_parallel_microbatch_size."""
    rows = settings.whole(*_ROWS)
    draft.say("sequence_length", settings.whole(*_LENGTH))
    if degrees.pipeline == 1:
        draft.say("micro_batch_size", rows)
        _say_steps(rows, 1, "global_batch_size", settings, degrees, draft)
        return
    rows = rows or _DEFAULT_ROWS
    size = settings.whole("parallelism.pipeline_parallel_microbatch_size") or Found(
        1, "torchtitan default (pipeline_parallel_microbatch_size)"
    )
    draft.say("micro_batch_size", size)
    if not (isinstance(rows, Found) and isinstance(size, Found)) or size.value < 1:
        draft.say(_STEPS, rows if not isinstance(rows, Found) else None)
        return
    if rows.value % size.value:
        # pipeline_parallel.py, Trainer.Config.__post_init__: ValueError.
        draft.problem(
            Problem(
                rule="micro_batches_do_not_divide",
                detail=f"local_batch_size {rows.value} is not a multiple of"
                f" pipeline_parallel_microbatch_size {size.value}",
                fix="change one of them",
                values={rows.source: rows.value, size.source: size.value},
                field="micro_batch_size",
            )
        )
        return
    _say_steps(rows, rows.value // size.value, "global_batch_size", settings, degrees, draft)


def _say_tokens(tokens: Reading[int], settings: Settings, degrees: Degrees, draft: Draft) -> None:
    length = settings.whole("training.max_context_length", *_LENGTH) or Found(
        2048, "torchtitan default (max_context_length)"
    )
    draft.say("sequence_length", length)
    if not (isinstance(tokens, Found) and isinstance(length, Found)) or length.value < 1:
        draft.say("micro_batch_size", tokens if not isinstance(tokens, Found) else None)
        return
    rows = max(1, tokens.value // length.value)
    draft.say("micro_batch_size", Found(rows, f"{tokens.source}, {length.source}"))
    if tokens.value < length.value:
        draft.say("sequence_length", Found(tokens.value, tokens.source))
    pipeline = value_or(settings.whole("parallelism.num_pp_microbatches"), 1)
    parts = pipeline if degrees.pipeline > 1 else 1
    whole = Found(tokens.value * parts, tokens.source)
    _say_steps(whole, parts, "num_tokens_per_train_step", settings, degrees, draft)


def _say_steps(
    rank: Reading[int], parts: int, name: str, settings: Settings, degrees: Degrees, draft: Draft
) -> None:
    """Keep accumulation: the global batch over what all data-parallel ranks take at once.

    ``parts``: the micro-batches that a pipeline makes of a rank's share.
    """
    whole = settings.whole(f"training.{name}")
    if whole is None or (isinstance(whole, Found) and whole.value < 0):
        if parts > 1 and isinstance(rank, Found):
            draft.say(_STEPS, Found(parts, rank.source))
        elif isinstance(whole, Found):
            draft.say(_STEPS, Found(1, whole.source))
        return
    rank = rank or _DEFAULT_ROWS
    if not (isinstance(whole, Found) and isinstance(rank, Found)):
        draft.say(_STEPS, whole if not isinstance(whole, Found) else rank)
        return
    shard = shards(degrees, draft)
    if shard is None:
        reason = f"{name} {whole.value} is shared by devices whose number is not known"
        draft.say(_STEPS, Unseen(whole.source, reason, "give hardware.devices"))
        return
    at_once = rank.value * degrees.replicate * shard
    if at_once < 1 or whole.value % at_once:
        draft.problem(_undivided(name, whole, rank, at_once))
        return
    draft.say(_STEPS, Found(parts * whole.value // at_once, whole.source))


def _undivided(name: str, whole: Found[int], rank: Found[int], at_once: int) -> Problem:
    """AssertionError "global batch size must be multiple of local batch size times …"."""
    return Problem(
        rule="global_batch_does_not_divide",
        detail=f"{name} {whole.value} is not a multiple of {at_once}, what the data-parallel ranks"
        f" take at once with {rank.value} each",
        fix=f"write a multiple of {max(1, at_once)}",
        values={whole.source: whole.value, rank.source: rank.value},
        field=_STEPS,
    )
