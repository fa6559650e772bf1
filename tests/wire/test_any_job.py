"""Any JSON is taken or refused as a job; any job in shape resolves, or is refused with its fields."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.costmodel.job import Dtype
from vramgate.errors import DomainError
from vramgate.jobs.resolve import resolve
from vramgate.wire import job_parts, machine_parts
from vramgate.wire.job import JobIn, JobOut

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["lora", "full", "fp8", "bf16", "cpu", "fsdp", "all-linear", "eager"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *JobIn.model_fields,
                    *job_parts.MethodIn.model_fields,
                    *job_parts.PrecisionIn.model_fields,
                    *machine_parts.ShardingIn.model_fields,
                    *machine_parts.ParallelismIn.model_fields,
                ]
            )
            | st.text(max_size=8),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_taken_or_refused(body: object) -> None:
    refused = None
    try:
        JobIn.model_validate(body)
    except ValidationError as error:
        refused = error.errors(include_url=False)
    assert refused != []


def _part(shape: type[BaseModel], values: dict[str, st.SearchStrategy[Any]]) -> Any:  # noqa: ANN401
    assert values.keys() <= shape.model_fields.keys()
    return st.fixed_dictionaries({}, optional=values)


_sizes = st.sampled_from([1, 2, 3, 4, 8, 16, 64])
_flags = st.booleans()
_dtypes = st.sampled_from(list(Dtype))


def _enumerated(shape: type[BaseModel], field: str) -> st.SearchStrategy[Any]:
    definitions = shape.model_json_schema()["$defs"]
    (reference,) = [
        one["$ref"].rsplit("/", 1)[-1]
        for one in shape.model_json_schema()["properties"][field]["anyOf"]
        if "$ref" in one and "enum" in definitions[one["$ref"].rsplit("/", 1)[-1]]
    ]
    return st.sampled_from(definitions[reference]["enum"])


valid_jobs = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            [
                {"name": "meta-llama/Llama-3.1-8B"},
                {"name": "openai-community/gpt2"},
                {"name": "mistralai/Mixtral-8x7B-v0.1"},
                {"name": "TheBloke/Mistral-7B-v0.1-GPTQ"},
                {"name": "google-t5/t5-small"},
                {"name": "google/gemma-2-9b"},
                {"parameters": 3_000_000_000},
            ]
        )
    },
    optional={
        "method": _part(
            job_parts.MethodIn,
            {
                "kind": _enumerated(job_parts.MethodIn, "kind"),
                "rank": st.integers(1, 65_536),
                "target_modules": st.sampled_from(
                    ["all-linear", ["q_proj"], ["nope"], ".*q.*", "(a*)*"]
                ),
                "quantization": _enumerated(job_parts.MethodIn, "quantization"),
                "dora": _flags,
                "adapter_dtype": _dtypes,
                "trainable_layers": st.integers(1, 4096),
                "double_quant": _flags,
            },
        ),
        "task": _enumerated(JobIn, "task"),
        "precision": _part(
            job_parts.PrecisionIn,
            {
                "weights": _dtypes,
                "compute": _dtypes,
                "autocast": _flags,
                "gradients": _dtypes,
                "master_weights": _flags,
                "optimizer_states": _dtypes,
                "linear": _enumerated(job_parts.PrecisionIn, "linear"),
            },
        ),
        "optimizer": _enumerated(JobIn, "optimizer"),
        "micro_batch_size": st.integers(1, 65_536),
        "sequence_length": st.integers(1, 2**24),
        "gradient_accumulation_steps": st.integers(1, 2**20),
        "packing": _enumerated(JobIn, "packing"),
        "activation_checkpointing": _part(
            job_parts.CheckpointingIn,
            {
                "mode": _enumerated(job_parts.CheckpointingIn, "mode"),
                "every_n_layers": st.integers(1, 4096),
                "offload": _flags,
                "reentrant": _flags,
            },
        ),
        "attention": _enumerated(JobIn, "attention"),
        "loss": _enumerated(JobIn, "loss"),
        "parallelism": _part(
            machine_parts.ParallelismIn,
            {
                "tensor_parallel_size": _sizes,
                "pipeline_parallel_size": _sizes,
                "context_parallel_size": _sizes,
                "expert_parallel_size": _sizes,
                "sequence_parallel": _flags,
                "pipeline_schedule": _enumerated(machine_parts.ParallelismIn, "pipeline_schedule"),
                "virtual_pipeline_stages": _sizes,
            },
        ),
        "sharding": _part(
            machine_parts.ShardingIn,
            {
                "implementation": _enumerated(machine_parts.ShardingIn, "implementation"),
                "zero_stage": st.integers(0, 3),
                "shard_group_size": _sizes,
                "offload_optimizer": _enumerated(machine_parts.ShardingIn, "offload_optimizer"),
                "offload_parameters": _enumerated(machine_parts.ShardingIn, "offload_parameters"),
            },
        ),
        "hardware": _part(
            machine_parts.HardwareIn,
            {
                "accelerator": st.sampled_from(["t4", "h100-sxm5-80gb", "a100", "nothing"]),
                "devices": st.integers(1, 2**20),
                "device_memory_bytes": st.integers(1, 2**50),
                "occupied_bytes": st.integers(0, 2**40),
            },
        ),
        "software": _part(
            machine_parts.SoftwareIn,
            {
                "framework": st.sampled_from(
                    ["trl", "megatron", "torchtitan", "unsloth", "deepspeed", "x"]
                ),
                "stack": st.sampled_from(["transformers 4.48", "torch 2.1", "peft 0.11"]),
            },
        ),
    },
)


@given(valid_jobs)
def test_any_job_in_shape_resolves_or_is_refused_with_its_fields(body: dict[str, Any]) -> None:
    description = JobIn.model_validate(body).to_domain()
    refused = done = None
    try:
        done = resolve(description, models=builtin_models(), accelerators=builtin_accelerators())
    except DomainError as error:
        refused = error.fields
    if done is not None:
        again = JobIn.model_validate(JobOut.from_domain(done.description).model_dump(mode="json"))
        assert again.to_domain() == done.description
    else:
        assert refused
        assert all(field.pointer.startswith("/job/") for field in refused)
