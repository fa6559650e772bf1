"""resolve: from a job as described to the job the cost model takes, with every default named."""

from dataclasses import dataclass

from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.catalog.models import ModelCatalog
from vramgate.costmodel.breakdown import Assumption, EstimateWarning
from vramgate.costmodel.job import (
    Dtype,
    Hardware,
    Method,
    MethodKind,
    Optimizer,
    Parallelism,
    Precision,
    Sharding,
    Software,
    TrainingJob,
)
from vramgate.jobs.description import JobDescription
from vramgate.jobs.hardware import find_hardware
from vramgate.jobs.ledger import Ledger
from vramgate.jobs.method import ADAPTER_KINDS, find_method, method_kind
from vramgate.jobs.model import find_model
from vramgate.jobs.normalised import normalised
from vramgate.jobs.number_formats import KEEPS_MASTER, find_formats, find_precision
from vramgate.jobs.optimizer import find_optimizer
from vramgate.jobs.rules.case import Case
from vramgate.jobs.rules.check import check_job
from vramgate.jobs.setting import Setting
from vramgate.jobs.sharding import data_parallel_size, find_sharding
from vramgate.jobs.software import find_software
from vramgate.jobs.training import (
    find_accumulation,
    find_attention,
    find_checkpointing,
    find_loss,
    find_packing,
    find_parallelism,
    find_sequence_length,
)
from vramgate.jobs.warnings.warn import warn_about


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedJob:
    """A job with nothing left open, and what had to be taken to get there."""

    job: TrainingJob
    description: JobDescription
    """The job in the words it came in, every field filled: resolving it again gives the same job."""
    model_name: str
    assumptions: tuple[Assumption, ...]
    warnings: tuple[EstimateWarning, ...]


def resolve(
    description: JobDescription, *, models: ModelCatalog, accelerators: AcceleratorCatalog
) -> ResolvedJob:
    """Return the job complete: each missing field has its framework's default, listed as an assumption.

    Raises:
        UnknownNameError: the model or the accelerator is in no catalog.
        InvalidModelConfigError: the model's config lacks keys or contradicts itself.
        InvalidJobError: fields contradict each other or the model; all problems found are listed.
    """
    ledger = Ledger()
    software = find_software(description.software, ledger)
    model = find_model(description.model, models, ledger)
    hardware = find_hardware(description, accelerators, ledger)
    setting = Setting(
        said=description,
        model=model,
        framework=software.framework,
        defaults=software.defaults,
        stack=software.stack,
        bf16=hardware.device is None or hardware.device.bf16_native,
        ledger=ledger,
    )
    job = _training_job(setting, hardware=hardware, software=software.value)
    case = Case(
        said=description,
        job=job,
        model=model,
        framework=software.framework,
        data_parallel_size=data_parallel_size(int(hardware.devices), job.parallelism),
    )
    check_job(case)
    warn_about(case, ledger)
    return ResolvedJob(
        job=job,
        description=normalised(description, job, stack=software.said_stack),
        model_name=model.name,
        assumptions=tuple(ledger.assumptions),
        warnings=tuple(ledger.warnings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """How a step is spread over devices and time."""

    micro_batch_size: int
    accumulation: int
    parallelism: Parallelism
    sharding: Sharding


def _spread(setting: Setting, devices: int) -> _Spread:
    micro_batch = setting.ledger.said_or(
        "micro_batch_size", setting.said.micro_batch_size, setting.defaults.batch.micro_batch_size
    )
    parallelism = find_parallelism(setting)
    replicas = data_parallel_size(devices, parallelism)
    accumulation = find_accumulation(
        setting,
        micro_batch_size=micro_batch,
        data_parallel_size=replicas,
        stages=parallelism.pipeline_parallel_size,
    )
    return _Spread(
        micro_batch_size=micro_batch,
        accumulation=accumulation,
        parallelism=parallelism,
        sharding=find_sharding(setting, replicas, accumulation),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trained:
    """What trains, in which formats, by which optimizer."""

    method: Method
    precision: Precision
    optimizer: Optimizer


def _trained(setting: Setting, kind: MethodKind, sharding: Sharding) -> _Trained:
    formats = find_formats(setting, kind, sharding)
    base_dtype = formats.weights or Dtype.FP32
    engine_casts = formats.master_weights is True and sharding.implementation in KEEPS_MASTER
    method = find_method(setting, kind, sharding, base_dtype=base_dtype, engine_casts=engine_casts)
    optimizer = find_optimizer(setting, sharding)
    precision = find_precision(
        setting,
        formats,
        sharding,
        trainable=method.adapter_dtype if kind in ADAPTER_KINDS else base_dtype,
        optimizer=optimizer.name,
    )
    return _Trained(method=method, precision=precision, optimizer=optimizer)


def _training_job(setting: Setting, *, hardware: Hardware, software: Software) -> TrainingJob:
    """Return the job with every part resolved, in the order in which they depend on each other."""
    said, ledger, defaults = setting.said, setting.ledger, setting.defaults
    kind = method_kind(setting)
    task = ledger.said_or("task", said.task, defaults.method.task)
    spread = _spread(setting, int(hardware.devices))
    trained = _trained(setting, kind, spread.sharding)
    kernels = said.fused_kernels
    if kernels is None:
        kernels = ledger.take("fused_kernels", defaults.kernels.fused)
    return TrainingJob(
        architecture=setting.model.architecture,
        method=trained.method,
        task=task,
        precision=trained.precision,
        optimizer=trained.optimizer,
        micro_batch_size=spread.micro_batch_size,
        sequence_length=find_sequence_length(setting),
        gradient_accumulation_steps=spread.accumulation,
        packing=find_packing(setting, task, spread.micro_batch_size),
        checkpointing=find_checkpointing(setting, kind, spread.sharding),
        attention=find_attention(setting, trained.precision.compute),
        loss=find_loss(setting, task),
        fused_kernels=frozenset(kernels),
        compile=ledger.said_or("compile", said.compile, defaults.kernels.compile),
        parallelism=spread.parallelism,
        sharding=spread.sharding,
        hardware=hardware,
        software=software,
    )
