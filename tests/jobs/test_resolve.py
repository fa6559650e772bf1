"""A job resolved: the model, the cards, what is listed as taken, and that it can be sent again."""

import dataclasses
from typing import Any

import pytest

from tests.jobs.describing import assumed, resolved, warning_codes
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import ModelEntry, builtin_models
from vramgate.costmodel.job import Dtype, MethodKind, Packing
from vramgate.errors import DomainError, InvalidJobError, InvalidModelConfigError, UnknownNameError
from vramgate.jobs.description import JobDescription, ModelDescription
from vramgate.jobs.resolve import resolve

TINY = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}


def _again(description: JobDescription) -> Any:  # noqa: ANN401
    return resolve(description, models=builtin_models(), accelerators=builtin_accelerators())


def test_a_job_of_which_only_the_model_is_said_lists_every_default_with_its_source() -> None:
    result = resolved()

    assert assumed(result, "attention") == ("sdpa", "transformers default")
    assert assumed(result, "software.framework")[0] == "transformers"
    assert {one.field for one in result.assumptions} >= {
        "micro_batch_size",
        "sequence_length",
        "gradient_accumulation_steps",
        "method.kind",
        "task",
        "precision",
        "optimizer.name",
        "optimizer.implementation",
        "activation_checkpointing.mode",
        "loss",
        "packing",
        "compile",
        "fused_kernels",
        "hardware.devices",
    }
    assert all(one.source for one in result.assumptions)


def test_what_was_said_is_no_assumption() -> None:
    result = resolved(
        micro_batch_size=3, attention="eager", task="dpo", software={"framework": "trl"}
    )

    assert not {"micro_batch_size", "attention", "task", "software.framework"} & {
        one.field for one in result.assumptions
    }
    assert result.job.micro_batch_size == 3


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"method": "qlora", "software": {"framework": "unsloth"}},
        # Its adapters are bf16 whatever the run computes in.
        {
            "method": "qlora",
            "precision": {"weights": "fp16", "compute": "fp16", "autocast": True},
            "software": {"framework": "trl"},
        },
        {"method": "lora", "hardware": {"devices": 8}, "sharding": {"implementation": "deepspeed"}},
        {"method": {"kind": "lora", "target_modules": r".*\.(q_proj|v_proj)"}},
        {"method": {"kind": "freeze", "trainable_layers": 3}},
        {"software": {"framework": "megatron"}, "hardware": {"devices": 16}},
        {"parallelism": {"pipeline_parallel_size": 4, "virtual_pipeline_stages": 2}},
        {"hardware": {"device_memory_bytes": 80_000_000_000, "occupied_bytes": 1000}},
        {"software": {"stack": "torch 2.1.1, ms-swift 1.x", "framework": "ms-swift"}},
        {"optimizer": "galore_adamw", "activation_checkpointing": "selective"},
    ],
)
def test_the_normalised_job_resolves_to_itself_with_nothing_left_to_assume(
    fields: dict[str, Any],
) -> None:
    first = resolved(**fields)

    second = _again(first.description)

    assert second.job == first.job
    assert second.description == first.description
    assert not second.assumptions


def test_the_normalised_job_leaves_out_what_its_method_has_not() -> None:
    method = resolved(method="full").description.method

    assert method.kind is MethodKind.FULL
    assert all(
        getattr(method, field.name) is None
        for field in dataclasses.fields(method)
        if field.name != "kind"
    )


def test_a_model_by_config_is_counted_from_it() -> None:
    result = resolved(model={"config": TINY})

    # embedding 16384, head 16384, per layer q 4096 + k 2048 + v 2048 + o 4096 + 3 × 8192 + 2 × 64,
    # final norm 64: by hand.
    assert result.job.architecture.parameters == 16384 * 2 + 2 * (12288 + 24576 + 128) + 64
    assert result.model_name == "llama"


def test_a_config_with_a_large_label_table_is_the_same_model() -> None:
    labels = {str(number): f"a label of some length, number {number}" for number in range(5000)}

    result = resolved(model={"config": {**TINY, "id2label": labels}})

    assert result.job.architecture == resolved(model={"config": TINY}).job.architecture


def test_a_config_may_carry_the_models_name() -> None:
    assert resolved(model={"config": {**TINY, "_name_or_path": "me/tiny"}}).model_name == "me/tiny"


def test_a_model_by_size_gets_a_shape_and_says_so() -> None:
    result = resolved(model={"parameters": 7_000_000_000})

    assert result.job.architecture.parameters == pytest.approx(7e9, rel=0.1)
    assert "model_shape_inferred" in warning_codes(result)


def test_an_unknown_model_is_refused_at_its_field() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolved(model={"name": "meta-lama/Lama-3.1-8X"})

    assert [field.pointer for field in caught.value.fields] == ["/job/model/name"]
    assert caught.value.hint


def test_an_unknown_accelerator_is_refused_at_its_field() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolved(hardware={"accelerator": "voodoo-2"})

    assert [field.pointer for field in caught.value.fields] == ["/job/hardware/accelerator"]


def test_a_config_without_its_sizes_is_refused_at_the_key() -> None:
    with pytest.raises(InvalidModelConfigError) as caught:
        resolved(model={"config": {"model_type": "llama", "vocab_size": 10}})

    assert all(f.pointer.startswith("/job/model/config") for f in caught.value.fields)


def test_a_size_no_model_has_is_refused_at_its_field() -> None:
    with pytest.raises(DomainError) as caught:
        resolved(model={"parameters": 1})

    assert {f.pointer for f in caught.value.fields} == {"/job/model/parameters"}


def test_a_catalogs_broken_config_is_refused_at_the_name() -> None:
    models = builtin_models().merged_with(
        [ModelEntry(name="site/broken", config={"model_type": "llama"}, origin="site")]
    )
    said = JobDescription(model=ModelDescription(name="site/broken"))

    with pytest.raises(InvalidModelConfigError) as caught:
        resolve(said, models=models, accelerators=builtin_accelerators())

    assert {f.pointer for f in caught.value.fields} == {"/job/model/name"}


def test_a_sites_model_known_by_its_size_only_gets_a_shape() -> None:
    models = builtin_models().merged_with(
        [ModelEntry(name="site/secret", parameters=3_000_000_000, origin="site")]
    )
    said = JobDescription(model=ModelDescription(name="site/secret"))

    result = resolve(said, models=models, accelerators=builtin_accelerators())

    assert result.model_name == "site/secret"
    assert "model_shape_inferred" in warning_codes(result)


def test_a_shared_card_is_warned_about() -> None:
    # NVIDIA's device plugin marks time-slicing so (k8s-device-plugin, gpu-feature-discovery).
    result = resolved(hardware={"accelerator": "NVIDIA-A100-SXM4-80GB-SHARED"})

    assert "shared_device" in warning_codes(result)


@pytest.mark.parametrize(
    ("quantization", "taken"),
    [  # transformers utils/quantization_config.py
        ({"quant_method": "gptq", "bits": 4}, "gptq-int4"),
        ({"quant_method": "awq", "bits": 4}, "awq-int4"),
        ({"quant_method": "awq", "bits": 8}, "nf4"),  # no method of ours: QLoRA's default
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "nf4"),
        ({"load_in_4bit": True}, "fp4"),
        ({"quant_method": "fp8"}, "nf4"),
        ("gptq", "nf4"),
    ],
)
def test_the_format_of_a_configs_weights_is_read(quantization: object, taken: str) -> None:
    config = {**TINY, "quantization_config": quantization}

    result = resolved(model={"config": config}, method="qlora")

    assert result.job.method.quantization == taken


def test_no_model_at_all_is_refused() -> None:
    with pytest.raises(InvalidJobError) as caught:
        _again(JobDescription(model=dataclasses.replace(resolved().description.model, name=None)))

    assert caught.value.fields[0].pointer == "/job/model"


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("TheBloke/Mistral-7B-v0.1-GPTQ", "gptq-int4"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "awq-int4"),
        ("unsloth/llama-3-8b-bnb-4bit", "nf4"),
    ],
)
def test_quantised_names_train_adapters_over_their_own_format(name: str, quantization: str) -> None:
    result = resolved(model={"name": name})

    assert result.job.method.kind is MethodKind.QLORA
    assert result.job.method.quantization == quantization
    assert "the weights are" in assumed(result, "method.kind")[1]


def test_lora_over_quantised_weights_is_qlora() -> None:
    result = resolved(model={"name": "TheBloke/Mistral-7B-v0.1-GPTQ"}, method="lora")

    assert result.job.method.kind is MethodKind.QLORA


def test_qlora_without_a_format_is_nf4() -> None:
    assert assumed(resolved(method="qlora"), "method.quantization")[0] == "nf4"


def test_gptq_bases_are_never_cast_up() -> None:
    # peft utils/other.py prepare_model_for_kbit_training: "if not is_gptq_quantized …".
    result = resolved(model={"name": "TheBloke/Mistral-7B-v0.1-GPTQ"}, method="qlora")

    assert not result.job.method.prepare_for_kbit_training


def test_sharded_bases_are_not_cast_up() -> None:
    # trl 0.13 sft_trainer.py: "one should never call … prepare_model_for_kbit_training when doing
    # QLoRA + FSDP / DS-Zero3".
    result = resolved(method="qlora", sharding={"implementation": "fsdp"}, hardware={"devices": 2})

    assert not result.job.method.prepare_for_kbit_training


def test_adapters_under_deepspeed_take_the_engines_dtype() -> None:
    # DeepSpeed runtime/engine.py _configure_distributed_model casts the whole module.
    result = resolved(
        method="lora",
        precision="bf16-master",
        sharding={"implementation": "deepspeed", "zero_stage": 2},
    )

    assert result.job.method.adapter_dtype is Dtype.BF16


def test_a_single_row_needs_no_padding() -> None:
    assert resolved(micro_batch_size=1).job.packing is Packing.PACKED
    assert resolved(micro_batch_size=2).job.packing is Packing.PADDED
    assert resolved(micro_batch_size=2, task="pretrain").job.packing is Packing.PACKED


def test_rows_are_no_longer_than_the_model_reads() -> None:
    result = resolved(model={"config": TINY})

    assert assumed(result, "sequence_length")[0] == 128


def test_devices_default_to_what_the_parallel_sizes_need() -> None:
    result = resolved(parallelism={"tensor_parallel_size": 4, "pipeline_parallel_size": 2})

    assert assumed(result, "hardware.devices")[0] == 8


def test_a_memory_size_replaces_the_catalogs() -> None:
    result = resolved(
        hardware={"accelerator": "a100-sxm4-80gb", "device_memory_bytes": 50_000_000_000}
    )

    device = result.job.hardware.device
    assert device is not None
    assert device.usable_bytes == 50_000_000_000
    assert device.compute_capability == (8, 0)


def test_a_memory_size_alone_is_a_capacity() -> None:
    device = resolved(hardware={"device_memory_bytes": 10**10}).job.hardware.device

    assert device is not None
    assert device.usable_bytes == 10**10


def test_without_an_accelerator_there_is_no_capacity() -> None:
    assert resolved().job.hardware.device is None


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({"every_n_layers": 2}, "full"),
        ({"modules": ["core_attn"]}, "selective"),
        ({"offload": True}, "full"),
        ({"reentrant": True}, "none"),
    ],
)
def test_checkpointing_without_a_mode_is_the_one_its_fields_mean(
    fields: dict[str, Any], mode: str
) -> None:
    assert resolved(activation_checkpointing=fields).job.checkpointing.mode == mode


def test_a_stage_alone_means_the_frameworks_way_to_shard() -> None:
    both = {"hardware": {"devices": 8}, "sharding": {"zero_stage": 3}}

    assert resolved(**both).job.sharding.implementation == "deepspeed"
    assert resolved(**both, software={"framework": "torch"}).job.sharding.implementation == "fsdp2"
    assert resolved(**both, software={"framework": "litgpt"}).job.sharding.implementation == "fsdp"


def test_shard_grad_op_keeps_parameters_gathered() -> None:
    job = resolved(
        hardware={"devices": 8}, sharding={"implementation": "fsdp", "zero_stage": 2}
    ).job

    assert not job.sharding.reshard_after_forward


def test_a_fused_cross_entropy_kernel_is_a_fused_loss() -> None:
    assert resolved(fused_kernels=["cross_entropy"]).job.loss == "fused"


def test_tasks_without_logits_have_no_fused_loss() -> None:
    job = resolved(task="reward", software={"framework": "unsloth"}).job

    assert job.loss == "standard"


def test_two_gigabytes_of_text_in_a_config_do_not_reach_the_name() -> None:
    result = resolved(model={"config": {**TINY, "_name_or_path": ""}})

    assert result.model_name == "llama"


def test_a_card_does_not_have_many_times_its_memory() -> None:
    said = {"accelerator": "t4", "device_memory_bytes": 500 * 2**30}
    with pytest.raises(InvalidJobError) as caught:
        resolved(model={"name": "gpt2"}, hardware=said)
    (field,) = caught.value.fields
    assert field.pointer == "/job/hardware/device_memory_bytes"
    assert "t4 has 16.00 GiB" in field.detail
