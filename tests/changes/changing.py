"""Jobs that do not fit their card, and what is offered to change in them."""

import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from vramgate.calibration.distribution import FOLK_FACTOR, FOLK_RISK
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.changes.change import ChangeKind, FittingChange
from vramgate.changes.fitting import fitting_changes
from vramgate.costmodel.estimate import estimate_memory
from vramgate.jobs.description import JobDescription
from vramgate.jobs.resolve import resolve
from vramgate.wire.job import JobIn

Json = dict[str, Any]
ALL = len(ChangeKind)
RISK = FOLK_RISK
CARD = "a100-sxm4-80gb"


class Asked:
    """Counts how often it is asked whether to go on, and says yes so many times."""

    def __init__(self, allowed: int = 10**6) -> None:
        self.times, self._allowed = 0, allowed

    def __call__(self) -> bool:
        """Return whether this is still one of the times allowed."""
        self.times += 1
        return self.times <= self._allowed


def a_full_job(**fields: Any) -> Json:  # noqa: ANN401 whatever JSON holds
    """Return a full fine-tune of an 8B model on one A100, by transformers."""
    return {
        "model": {"name": "meta-llama/Llama-3.1-8B"},
        "method": "full",
        "precision": "bf16-true",
        "optimizer": {"name": "adamw", "implementation": "fused"},
        "micro_batch_size": 4,
        "sequence_length": 4096,
        "gradient_accumulation_steps": 1,
        "packing": "packed",
        "hardware": {"accelerator": CARD, "devices": 1},
        "software": {"framework": "transformers"},
        **fields,
    }


def described(job: Json) -> JobDescription:
    """Return a job given as JSON."""
    return JobIn.model_validate(job).to_domain()


def required_bytes(description: JobDescription) -> int:
    """Return what a job's card must offer at least."""
    resolved = resolve(description, models=builtin_models(), accelerators=builtin_accelerators())
    return int(estimate_memory(resolved.job).peak.required_bytes)


def on_card_for(job: Json, **fields: Any) -> Json:  # noqa: ANN401 whatever JSON holds
    """Return a job on a card of just the size that holds it once ``fields`` are changed, at a risk of 1 %."""
    return on_card_of(job, math.ceil(FOLK_FACTOR * required_bytes(described({**job, **fields}))))


def on_card_of(job: Json, usable_bytes: int) -> Json:
    """Return a job on a card of a size."""
    return {**job, "hardware": {**job["hardware"], "device_memory_bytes": usable_bytes}}


def always() -> bool:
    """Return that there is time."""
    return True


def changes_of(
    job: Json,
    *,
    risk: float = RISK,
    most: int = ALL,
    may_go_on: Callable[[], bool] = always,
) -> tuple[FittingChange, ...]:
    """Return the changes offered for a job; all there are unless ``most`` is given."""
    return fitting_changes(
        described(job),
        models=builtin_models(),
        accelerators=builtin_accelerators(),
        risk=risk,
        most=most,
        may_go_on=may_go_on,
    )


def of_kind(changes: tuple[FittingChange, ...], kind: ChangeKind) -> FittingChange:
    """Return the change of exactly one kind."""
    found = [change for change in changes if change.kinds == (kind,)]
    assert len(found) == 1, (kind, [change.kinds for change in changes])
    return found[0]


def kinds(changes: tuple[FittingChange, ...]) -> list[tuple[ChangeKind, ...]]:
    """Return the kinds of changes, in the order offered."""
    return [change.kinds for change in changes]


def values(change: FittingChange) -> dict[str, tuple[object, object]]:
    """Return what differs, before and after, by field."""
    return {one.field: (one.before, one.after) for one in change.fields}


_LAYOUTS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"hardware": {"accelerator": CARD, "devices": 1}},
        {"hardware": {"accelerator": "h100-sxm5-80gb", "devices": 8}},
        {"hardware": {"accelerator": "mi300x", "devices": 8}},
        {
            "hardware": {"accelerator": CARD, "devices": 8},
            "sharding": {"implementation": "deepspeed", "zero_stage": 2},
        },
        {
            "hardware": {"accelerator": CARD, "devices": 4},
            "sharding": {"implementation": "fsdp", "zero_stage": 3},
        },
        {
            "hardware": {"accelerator": CARD, "devices": 8},
            "parallelism": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
            "software": {"framework": "megatron"},
        },
    ]
)
_LLAMA = {"model": {"name": "meta-llama/Llama-3.1-8B"}, "sequence_length": 1024}
_MODELS: st.SearchStrategy[Json] = st.sampled_from(
    [
        _LLAMA,
        {"model": {"name": "google/gemma-2-9b"}, "sequence_length": 1000, "attention": "eager"},
        {"model": {"name": "gpt2"}, "sequence_length": 1000, "attention": "eager"},
        {"model": {"name": "google-bert/bert-base-uncased"}, "sequence_length": 512},
    ]
)
_FRAMEWORKS = ("transformers", "trl", "llama_factory", "axolotl", "unsloth", "torchtune", "torch")


@st.composite
def jobs_too_large(draw: st.DrawFn) -> Json:
    """Return jobs that would run, on cards with a fifth of what they require to a little more than all."""
    job: Json = {
        **draw(_MODELS),
        "task": draw(st.sampled_from(["pretrain", "sft", "dpo", "kto", "classification"])),
        "method": draw(st.sampled_from(["full", "lora", "qlora"])),
        "micro_batch_size": draw(st.sampled_from([1, 2, 6, 8, 30])),
        "gradient_accumulation_steps": draw(st.sampled_from([1, 2, 3])),
        "activation_checkpointing": draw(st.sampled_from(["none", "full"])),
        "loss": "standard",
        "software": {"framework": draw(st.sampled_from(_FRAMEWORKS))},
        **draw(_LAYOUTS),
    }
    if job["software"]["framework"] == "unsloth":
        del job["loss"]  # its default kernels contradict a standard loss
    if job["software"]["framework"] == "megatron":
        job |= {**_LLAMA, "method": "full"}
    share = draw(st.integers(20, 110))
    return on_card_of(job, required_bytes(described(job)) * share // 100)
