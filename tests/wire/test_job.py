"""JobIn: what is taken, what is refused and where, and that it mirrors the domain's description."""

import dataclasses
import json
from typing import Any

import pytest
from pydantic import BaseModel

from tests.jobs.describing import resolved
from vramgate.costmodel.job import Dtype, MethodKind
from vramgate.jobs import description as domain
from vramgate.jobs.frameworks.registry import framework_names
from vramgate.wire import job_parts, machine_parts
from vramgate.wire.job import JobIn, JobOut
from vramgate.wire.validation import ValidationFailedError, validated

MODEL = {"model": {"name": "meta-llama/Llama-3.1-8B"}}


def _refused(body: object) -> dict[str, str]:
    """Return the pointers of what is refused, and what is said about each."""
    try:
        validated(JobIn, body)
    except ValidationFailedError as error:
        return {field.pointer: field.detail for field in error.fields}
    raise AssertionError(f"taken: {body}")


@pytest.mark.parametrize(
    ("fields", "pointer", "detail"),
    [
        ({"micro_batch_size": 0}, "/micro_batch_size", "must be at least 1"),
        ({"micro_batch_size": -3}, "/micro_batch_size", "must be at least 1"),
        ({"micro_batch_size": True}, "/micro_batch_size", "should be a whole number"),
        ({"micro_batch_size": "2"}, "/micro_batch_size", "should be a whole number"),
        ({"micro_batch_size": 2.5}, "/micro_batch_size", "should be a whole number"),
        ({"micro_batch_size": [2]}, "/micro_batch_size", "should be a whole number"),
        ({"micro_batch_size": 10**400}, "/micro_batch_size", "must be at most 65536"),
        ({"sequence_length": 10**9}, "/sequence_length", "must be at most 16777216"),
        ({"gradient_accumulation_steps": 0}, "/gradient_accumulation_steps", "at least 1"),
        ({"hardware": {"devices": 0}}, "/hardware/devices", "must be at least 1"),
        ({"hardware": {"devices": 2**21}}, "/hardware/devices", "must be at most 1048576"),
        ({"hardware": {"occupied_bytes": -1}}, "/hardware/occupied_bytes", "at least 0"),
        (
            {"hardware": {"device_memory_bytes": 2**60}},
            "/hardware/device_memory_bytes",
            "must be at most",
        ),
        ({"sharding": {"zero_stage": 4}}, "/sharding/zero_stage", "must be at most 3"),
        ({"sharding": {"zero_stage": False}}, "/sharding/zero_stage", "whole number"),
        ({"sharding": {"offload_fraction": 1.5}}, "/sharding/offload_fraction", "at most 1"),
        ({"sharding": {"offload_fraction": True}}, "/sharding/offload_fraction", "a number"),
        (
            {"sharding": {"buckets": {"reduce_elements": 10**20}}},
            "/sharding/buckets/reduce_elements",
            "must be at most",
        ),
        ({"compile": 1}, "/compile", "must be true or false"),
        ({"compile": "yes"}, "/compile", "must be true or false"),
        ({"batch": 4}, "/batch", "is not a field here"),
        ({"method": {"r": 8}}, "/method/r", "is not a field here"),
        ({"method": "lorra"}, "/method", "freeze, full, lora, qlora"),
        ({"method": 7}, "/method", "must be an object"),
        ({"method": {"kind": "lora", "rank": 0}}, "/method/rank", "at least 1"),
        ({"method": {"dropout": 1.1}}, "/method/dropout", "at most 1"),
        ({"method": {"quantization": "int3"}}, "/method/quantization", "gptq-int4"),
        ({"method": {"target_modules": []}}, "/method/target_modules", "at least 1 item"),
        ({"method": {"target_modules": 5}}, "/method/target_modules", "regular expression"),
        ({"method": {"target_modules": ["q", 5]}}, "/method/target_modules/1", "must be text"),
        (
            {"method": {"target_modules": ["x" * 300]}},
            "/method/target_modules/0",
            "at most 256 characters",
        ),
        ({"precision": "bf17"}, "/precision", "bf16-mixed"),
        ({"precision": {"weights": "fp64"}}, "/precision/weights", "fp32"),
        ({"precision": {"linear": "fp8"}}, "/precision/linear", "fp8-tensorwise"),
        ({"optimizer": "adamw2"}, "/optimizer", "paged_adamw_8bit"),
        ({"optimizer": {"implementation": "apex"}}, "/optimizer/implementation", "foreach"),
        ({"activation_checkpointing": "some"}, "/activation_checkpointing", "selective"),
        ({"attention": "flash"}, "/attention", "flash_attention_2"),
        ({"packing": "yes"}, "/packing", "padding_free"),
        ({"task": "rlhf"}, "/task", "pretrain"),
        ({"loss": "none"}, "/loss", "fused_linear"),
        ({"fused_kernels": ["layer_norm"]}, "/fused_kernels/0", "rms_norm"),
        ({"fused_kernels": "rope"}, "/fused_kernels", "tuple"),
        (
            {"parallelism": {"pipeline_schedule": "fifo"}},
            "/parallelism/pipeline_schedule",
            "1f1b",
        ),
        ({"hardware": {"accelerator": ""}}, "/hardware/accelerator", "at least 1 character"),
        ({"software": {"stack": "x" * 513}}, "/software/stack", "at most 512 characters"),
        ({"software": {"stack": "torch\0"}}, "/software/stack", "NUL"),
        ({"software": {"stack": "torch \ud800"}}, "/software/stack", "lone surrogates"),
        ({"hardware": []}, "/hardware", "must be an object"),
    ],
)
def test_refuses_what_is_out_of_shape_at_its_field(
    fields: dict[str, Any], pointer: str, detail: str
) -> None:
    told = _refused({**MODEL, **fields})

    assert pointer in told, told
    assert detail in told[pointer]


@pytest.mark.parametrize(
    ("model", "detail"),
    [
        ({}, "exactly one of name, config and parameters; got none"),
        ({"name": "a", "parameters": 5}, "got name, parameters"),
    ],
)
def test_a_model_is_given_in_one_way(model: dict[str, Any], detail: str) -> None:
    assert detail in _refused({"model": model})["/model"]


def test_the_model_is_required() -> None:
    assert _refused({}) == {"/model": "is required"}


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"a": 1}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("config", "detail"),
    [
        (_nested(20), "at most 16 deep"),
        ({"labels": list(range(60_001))}, "at most 60000 values"),
        ({"a": "x" * 70_000}, "at most 65536 characters"),
        ({"a": 2**63}, "below 2**63"),
        ({"a": float("inf")}, "finite"),
        ({"a": float("nan")}, "finite"),
        ({"a": "\ud800"}, "lone surrogates"),
        ({"a\0": 1}, "NUL"),
        ({"x" * 600: 1}, "Keys of a config"),
        ({"a": {1, 2}}, "JSON values"),
        ([], "an object, as in config.json"),
    ],
)
def test_a_config_is_bounded(config: object, detail: str) -> None:
    told = _refused({"model": {"config": config}})

    assert any(detail in said for said in told.values()), told


def test_whole_floats_are_whole_numbers() -> None:
    # JSON Schema draft 2020-12, 6.1.1: a number with a zero fractional part is an integer.
    assert JobIn.model_validate({**MODEL, "micro_batch_size": 2.0}).micro_batch_size == 2


def test_short_forms_are_objects_inside() -> None:
    job = JobIn.model_validate(
        {
            **MODEL,
            "method": "lora",
            "precision": "bf16-mixed",
            "optimizer": "lion",
            "activation_checkpointing": "full",
        }
    ).to_domain()

    assert job.method.kind is MethodKind.LORA
    assert (job.precision.weights, job.precision.compute) == (Dtype.FP32, Dtype.BF16)
    assert job.optimizer.name == "lion"
    assert job.activation_checkpointing.mode == "full"


def test_null_is_not_said() -> None:
    said = {name: None for name in JobIn.model_fields if name != "model"}

    assert JobIn.model_validate({**MODEL, **said}).to_domain() == domain.JobDescription(
        model=domain.ModelDescription(name="meta-llama/Llama-3.1-8B")
    )


@pytest.mark.parametrize(
    ("wire", "description"),
    [
        (JobIn, domain.JobDescription),
        (job_parts.ModelIn, domain.ModelDescription),
        (job_parts.MethodIn, domain.MethodDescription),
        (job_parts.PrecisionIn, domain.PrecisionDescription),
        (job_parts.OptimizerIn, domain.OptimizerDescription),
        (job_parts.CheckpointingIn, domain.CheckpointingDescription),
        (machine_parts.ParallelismIn, domain.ParallelismDescription),
        (machine_parts.ShardingIn, domain.ShardingDescription),
        (machine_parts.BucketsIn, domain.BucketsDescription),
        (machine_parts.HardwareIn, domain.HardwareDescription),
        (machine_parts.SoftwareIn, domain.SoftwareDescription),
    ],
)
def test_wire_and_domain_have_the_same_fields(
    wire: type[BaseModel], description: type[Any]
) -> None:
    assert list(wire.model_fields) == [one.name for one in dataclasses.fields(description)]


def test_every_value_said_reaches_the_domain() -> None:
    # The normalised job has a value in every field it can; sent in, it must come out the same.
    for framework in framework_names():
        done = resolved(
            method="qlora",
            software={"framework": framework},
            hardware={"accelerator": "t4", "devices": 2},
        ).description

        body = JobOut.from_domain(done).model_dump(mode="json")

        assert JobIn.model_validate(body).to_domain() == done


def test_the_answers_job_is_a_job() -> None:
    done = resolved(method="qlora").description
    text = JobOut.from_domain(done).model_dump_json()

    body = json.loads(text)

    assert isinstance(body["method"], dict)
    assert isinstance(body["precision"], dict)
    assert isinstance(body["optimizer"], dict)
    assert isinstance(body["activation_checkpointing"], dict)
    assert JobIn.model_validate_json(text).to_domain() == done


def test_the_schema_shows_both_forms_and_every_bound() -> None:
    schema = JobIn.model_json_schema()

    method = schema["properties"]["method"]["anyOf"]
    assert {"$ref": "#/$defs/MethodKind"} in method
    assert {"$ref": "#/$defs/MethodIn"} in method
    batch = schema["properties"]["micro_batch_size"]["anyOf"][0]
    assert batch == {"maximum": 65536, "minimum": 1, "type": "integer"}
    assert schema["additionalProperties"] is False


def _numbers_without_bounds(schema: object, where: str = "") -> list[str]:
    if isinstance(schema, list):
        return [hit for part in schema for hit in _numbers_without_bounds(part, where)]
    if not isinstance(schema, dict):
        return []
    hits = [
        hit for k, part in schema.items() for hit in _numbers_without_bounds(part, f"{where}/{k}")
    ]
    if schema.get("type") in {"integer", "number"}:
        low = {"minimum", "exclusiveMinimum"} & schema.keys()
        high = {"maximum", "exclusiveMaximum"} & schema.keys()
        if not (low and high):
            hits.append(where)
    return hits


def test_every_number_is_bounded() -> None:
    assert _numbers_without_bounds(JobIn.model_json_schema()) == []
