"""check_job: every rule over a job, all findings together."""

from collections.abc import Callable, Iterator

from vramgate.errors import InvalidJobError
from vramgate.jobs.rules import method, parallel, precision, sharding, training
from vramgate.jobs.rules.case import Case, Finding

_RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    parallel.devices_divide,
    parallel.tensor_parallel,
    parallel.sequence_parallel,
    parallel.context_parallel,
    parallel.expert_parallel,
    parallel.pipelined_model,
    parallel.pipeline_parallel,
    parallel.pipeline_schedule,
    parallel.paired_stages,
    parallel.interleaved_micro_batches,
    sharding.zero_stage,
    sharding.shard_group,
    sharding.offload,
    sharding.in_backward,
    precision.trainable_formats,
    precision.mixed_halves,
    precision.compute_reaches_weights,
    precision.master_copy,
    precision.optimizer_fields,
    method.quantised_full,
    method.fields_apply,
    method.lora_targets,
    method.modules_to_save,
    method.sizes,
    training.flash_in_fp32,
    training.sdpa_exists,
    training.learned_positions,
    training.checkpointing_fields,
    training.loss_and_kernels,
    training.occupied,
    training.absurd_sizes,
)
_HINTS = 3


def check_job(case: Case) -> None:
    """Refuse a job that no card of any size would run.

    Raises:
        InvalidJobError: with every contradiction found, each at its field.
    """
    findings = [finding for rule in _RULES for finding in rule(case)]
    if not findings:
        return
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    hints = list(dict.fromkeys(finding.hint for finding in findings))[:_HINTS]
    raise InvalidJobError(
        f"{findings[0].detail}{more}",
        hint="; ".join(hints),
        fields=[finding.field_error() for finding in findings],
    )
