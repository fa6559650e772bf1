"""Each kind of change, on a job and a card made so that it is what helps."""

import pytest

from tests.changes.changing import (
    CARD,
    Json,
    a_full_job,
    changes_of,
    described,
    kinds,
    of_kind,
    on_card_for,
    on_card_of,
    required_bytes,
    values,
)
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.changes.change import ChangeKind


def test_allocator_setting_is_enough_where_two_percent_are_missing() -> None:
    """Fragmentation is 3 % of allocated without and 1 % with expandable segments (coefficients.py)."""
    job = on_card_for(
        a_full_job(), software={"framework": "transformers", "expandable_segments": True}
    )
    change = of_kind(changes_of(job), ChangeKind.ALLOCATOR)
    assert values(change) == {"software.expandable_segments": (False, True)}
    assert change.slowdown == 1.0
    assert change.text.startswith("Set PYTORCH_CUDA_ALLOC_CONF to expandable_segments:True: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"hardware": {"accelerator": "mi300x"}},
        {"software": {"framework": "transformers", "stack": "torch 2.0"}},
        {"software": {"framework": "transformers", "expandable_segments": True}},
    ],
)
def test_allocator_setting_is_offered_only_where_it_exists_and_is_off(fields: Json) -> None:
    job = a_full_job(**fields)
    small = on_card_of(job, required_bytes(described(job)) * 119 // 100)
    assert (ChangeKind.ALLOCATOR,) not in kinds(changes_of(small))


LOGITS_JOB = {"activation_checkpointing": "full", "method": "lora", "micro_batch_size": 4}


@pytest.mark.parametrize(
    ("framework", "loss"),
    [
        ("transformers", "fused_linear"),
        ("trl", "fused_linear"),
        ("llama_factory", "fused_linear"),
        ("axolotl", "fused_linear"),
        ("torchtune", "chunked"),
    ],
)
def test_loss_is_the_leanest_that_the_framework_has(framework: str, loss: str) -> None:
    """Liger's in the Trainer and what wraps it, torchtune's own in chunks."""
    base = a_full_job(**LOGITS_JOB, loss="standard", software={"framework": framework})
    change = of_kind(changes_of(on_card_for(base, loss=loss)), ChangeKind.LOSS)
    assert values(change) == {"loss": ("standard", loss)}
    assert change.text.startswith(f"Set loss to {loss}: ")
    assert change.slowdown == 1.0


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "classification"},
        {"task": "dpo"},
        {"model": {"name": "gpt2"}, "sequence_length": 1024},
        {"software": {"framework": "transformers", "stack": "transformers 4.40"}},
        {"software": {"framework": "composer"}, "loss": "fused"},
    ],
)
def test_loss_is_not_offered_without_logits_or_without_the_kernel(fields: Json) -> None:
    """LLaMA-Factory and the Trainer keep whole logits in DPO; Liger has no GPT-2."""
    job = a_full_job(**{**LOGITS_JOB, "loss": "standard", **fields})
    for percent in (60, 90, 119):
        small = on_card_of(job, required_bytes(described(job)) * percent // 100)
        assert all(ChangeKind.LOSS not in change.kinds for change in changes_of(small))


def test_fused_linear_loss_takes_the_place_of_ligers_cross_entropy() -> None:
    """Liger asserts that cross_entropy and fused_linear_cross_entropy are not both on."""
    base = a_full_job(**LOGITS_JOB, fused_kernels=["cross_entropy", "rms_norm"])
    job = on_card_for(base, loss="fused_linear", fused_kernels=["rms_norm"])
    change = of_kind(changes_of(job), ChangeKind.LOSS)
    assert values(change)["fused_kernels"] == (["cross_entropy", "rms_norm"], ["rms_norm"])


def test_eager_attention_becomes_sdpa_where_transformers_has_it() -> None:
    job = on_card_for(a_full_job(attention="eager"), attention="sdpa")
    assert values(of_kind(changes_of(job), ChangeKind.ATTENTION)) == {
        "attention": ("eager", "sdpa")
    }


def test_eager_attention_of_gemma_2_becomes_flash_attention_on_cards_that_have_it() -> None:
    """Transformers refuses sdpa for it from 5.24 on; flash-attn needs Ampere."""
    gemma = {
        "model": {"name": "google/gemma-2-9b"},
        "attention": "eager",
        "sequence_length": 2048,
    }
    job = on_card_for(a_full_job(**gemma), attention="flash_attention_2")
    change = of_kind(changes_of(job), ChangeKind.ATTENTION)
    assert values(change) == {"attention": ("eager", "flash_attention_2")}
    on_turing = {**a_full_job(**gemma, precision="fp16-true"), "hardware": {"accelerator": "t4"}}
    assert all(ChangeKind.ATTENTION not in change.kinds for change in changes_of(on_turing))


def test_kernels_are_ligers() -> None:
    """They save less of norms and gated products, which counts where nothing is recomputed."""
    wanted = ["rms_norm", "rope", "swiglu"]
    base = a_full_job(loss="fused_linear", gradient_accumulation_steps=1)
    change = of_kind(changes_of(on_card_for(base, fused_kernels=wanted)), ChangeKind.KERNELS)
    assert values(change) == {"fused_kernels": ([], wanted)}


def test_batch_is_the_largest_divisor_that_fits() -> None:
    """The divisors of 12 below it are 6, 4, 3, 2 and 1; the card is made for 4, so 4 × 3 steps."""
    base = a_full_job(micro_batch_size=12, sequence_length=1024)
    job = on_card_for(base, micro_batch_size=4, gradient_accumulation_steps=3)
    change = of_kind(changes_of(job), ChangeKind.BATCH)
    assert values(change) == {
        "micro_batch_size": (12, 4),
        "gradient_accumulation_steps": (1, 3),
    }
    assert change.slowdown is None
    assert "3 passes a step instead of 1" in change.cost


def test_kto_keeps_two_rows_to_compare() -> None:
    """TRL: "Actual (not effective) batch size must be > 1"."""
    base = a_full_job(task="kto", micro_batch_size=8, sequence_length=1024, method="lora")
    one = on_card_for(base, micro_batch_size=1, gradient_accumulation_steps=8)
    assert all(change.description.micro_batch_size != 1 for change in changes_of(one))
    two = on_card_for(base, micro_batch_size=2, gradient_accumulation_steps=4)
    assert values(of_kind(changes_of(two), ChangeKind.BATCH))["micro_batch_size"] == (8, 2)


def test_contrastive_rows_are_not_parted() -> None:
    base = a_full_job(task="embedding", micro_batch_size=8, sequence_length=1024)
    job = on_card_for(base, micro_batch_size=4, gradient_accumulation_steps=2)
    assert all(ChangeKind.BATCH not in change.kinds for change in changes_of(job))


def test_smaller_batch_brings_fsdp_no_whole_gradients() -> None:
    """Accelerate accumulates under no_sync, with whole gradients on every rank, unless it is told not to."""
    base = a_full_job(
        micro_batch_size=8,
        hardware={"accelerator": CARD, "devices": 8},
        sharding={"implementation": "fsdp", "zero_stage": 3},
    )
    job = on_card_for(
        base,
        micro_batch_size=4,
        gradient_accumulation_steps=2,
        sharding={**base["sharding"], "sync_each_micro_batch": True},
    )
    change = of_kind(changes_of(job), ChangeKind.BATCH)
    assert change.description.sharding.sync_each_micro_batch is True
    assert change.cost.endswith("gradients are reduced in each")


def test_pipelines_get_as_many_more_micro_batches() -> None:
    """Steps there are the micro-batches of a pipeline: 8 rows × 4 become 4 rows × 8."""
    base = a_full_job(
        task="pretrain",
        micro_batch_size=8,
        gradient_accumulation_steps=4,
        hardware={"accelerator": CARD, "devices": 4},
        parallelism={"pipeline_parallel_size": 4},
        software={"framework": "megatron"},
    )
    job = on_card_for(base, micro_batch_size=4, gradient_accumulation_steps=8)
    changed = values(of_kind(changes_of(job), ChangeKind.BATCH))
    assert changed["micro_batch_size"] == (8, 4)
    assert changed["gradient_accumulation_steps"] == (4, 8)


@pytest.mark.parametrize(("method", "slowdown"), [("full", 4 / 3), ("lora", 3 / 2)])
def test_full_checkpointing_runs_the_forward_pass_twice(method: str, slowdown: float) -> None:
    """Of forward, input gradients and weight gradients, three equal parts; frozen weights lack the last."""
    job = on_card_for(a_full_job(method=method), activation_checkpointing="full")
    change = of_kind(changes_of(job), ChangeKind.CHECKPOINTING)
    assert values(change)["activation_checkpointing.mode"] == ("none", "full")
    assert change.slowdown == pytest.approx(slowdown)


def test_selective_checkpointing_comes_first_where_the_framework_has_it() -> None:
    """Megatron-LM recomputes core attention, which unfused code holds as s × s scores."""
    base = a_full_job(
        task="pretrain", attention="eager", software={"framework": "megatron"}, sharding={}
    )
    wanted = {"mode": "selective", "modules": ["core_attn"]}
    change = of_kind(
        changes_of(on_card_for(base, activation_checkpointing=wanted)), ChangeKind.CHECKPOINTING
    )
    assert values(change)["activation_checkpointing.mode"] == ("none", "selective")
    assert change.slowdown is None


def test_checkpointing_every_layer_costs_nothing_over_every_fourth() -> None:
    """Either way each layer runs forward twice; four recomputed layers are alive at once otherwise."""
    base = a_full_job(
        activation_checkpointing={"mode": "full", "every_n_layers": 4}, loss="fused_linear"
    )
    job = on_card_for(base, activation_checkpointing="full")
    change = of_kind(changes_of(job), ChangeKind.CHECKPOINTING)
    assert values(change) == {"activation_checkpointing.every_n_layers": (4, 1)}
    assert change.slowdown == 1.0


def test_checkpoints_go_to_host_memory_where_the_framework_moves_them() -> None:
    base = a_full_job(
        activation_checkpointing="full",
        micro_batch_size=16,
        method="lora",
        software={"framework": "axolotl"},
    )
    job = on_card_for(base, activation_checkpointing={"mode": "full", "offload": True})
    change = of_kind(changes_of(job), ChangeKind.CHECKPOINTING)
    assert values(change) == {"activation_checkpointing.offload": (False, True)}
    assert "GiB of it in host memory" in change.cost


def zero_paper(stage: int) -> Json:
    """Return the example of ZeRO's figure 1: 7.5 B parameters on 64 devices, mixed-precision Adam."""
    return a_full_job(
        model={"parameters": 7_500_000_000},
        precision="bf16-master",
        micro_batch_size=1,
        sequence_length=512,
        activation_checkpointing="full",
        software={"framework": "deepspeed"},
        hardware={"accelerator": CARD, "devices": 64},
        sharding={"implementation": "deepspeed", "zero_stage": stage},
    )


def test_sharding_is_the_lowest_stage_that_fits() -> None:
    """ZeRO's figure 1: 31.4 GB with sharded states, 16.6 GB with gradients too, 1.9 GB with weights."""
    between_two_and_one, between_three_and_two = 30 * 10**9, 15 * 10**9
    changed = of_kind(
        changes_of(on_card_of(zero_paper(1), between_two_and_one)), ChangeKind.SHARDING
    )
    assert values(changed)["sharding.zero_stage"] == (1, 2)
    changed = of_kind(
        changes_of(on_card_of(zero_paper(1), between_three_and_two)), ChangeKind.SHARDING
    )
    assert values(changed)["sharding.zero_stage"] == (1, 3)
    assert changed.slowdown is None
    assert changed.cost.startswith("1.5 times what data parallelism sends")


def test_sharding_from_ddp_takes_the_frameworks_engine() -> None:
    base = a_full_job(
        micro_batch_size=1,
        hardware={"accelerator": CARD, "devices": 8},
        sharding={"implementation": "ddp"},
    )
    wanted = {"implementation": "deepspeed", "zero_stage": 2}
    changed = values(of_kind(changes_of(on_card_for(base, sharding=wanted)), ChangeKind.SHARDING))
    assert changed["sharding.implementation"] == ("ddp", "deepspeed")
    assert changed["sharding.zero_stage"] == (0, 2)


def test_megatron_shards_the_optimizer() -> None:
    base = a_full_job(
        task="pretrain",
        micro_batch_size=1,
        hardware={"accelerator": CARD, "devices": 8},
        sharding={"implementation": "megatron", "zero_stage": 0},
        software={"framework": "megatron"},
    )
    wanted = {"implementation": "megatron", "zero_stage": 1}
    change = of_kind(changes_of(on_card_for(base, sharding=wanted)), ChangeKind.SHARDING)
    assert values(change)["sharding.zero_stage"] == (0, 1)


def test_one_rank_has_nobody_to_share_with() -> None:
    job = a_full_job(precision="bf16-mixed")
    assert all(ChangeKind.SHARDING not in change.kinds for change in changes_of(job))


def test_fsdp_reduces_gradients_in_each_micro_batch_before_anything_is_offloaded() -> None:
    base = a_full_job(
        micro_batch_size=1,
        gradient_accumulation_steps=8,
        sequence_length=512,
        activation_checkpointing="full",
        hardware={"accelerator": CARD, "devices": 8},
        sharding={"implementation": "fsdp", "zero_stage": 3, "sync_each_micro_batch": False},
    )
    wanted = {**base["sharding"], "sync_each_micro_batch": True}
    change = of_kind(changes_of(on_card_for(base, sharding=wanted)), ChangeKind.SHARDING)
    assert values(change) == {"sharding.sync_each_micro_batch": (False, True)}


def offered(job: Json, kind: ChangeKind) -> bool:
    """Return whether a change of a kind has a part in anything offered, on cards of several sizes."""
    needed = required_bytes(described(job))
    return any(
        kind in change.kinds
        for percent in (5, 30, 60, 90, 115)
        for change in changes_of(on_card_of(job, needed * percent // 100))
    )


EIGHT = {"accelerator": CARD, "devices": 8}


def test_deepspeeds_pipelines_shard_states_alone() -> None:
    """DeepSpeed's pipeline engine refuses stages 2 and 3 (``runtime/pipe/engine.py``)."""
    base = a_full_job(
        task="pretrain",
        micro_batch_size=1,
        gradient_accumulation_steps=2,
        hardware=EIGHT,
        parallelism={"pipeline_parallel_size": 2},
        sharding={"implementation": "deepspeed", "zero_stage": 0},
        software={"framework": "deepspeed"},
    )
    wanted = {"implementation": "deepspeed", "zero_stage": 1}
    change = of_kind(changes_of(on_card_for(base, sharding=wanted)), ChangeKind.SHARDING)
    assert values(change)["sharding.zero_stage"] == (0, 1)


def test_fsdp_neither_shards_nor_moves_eight_bit_states() -> None:
    """Bitsandbytes' states are no DTensors."""
    job = a_full_job(
        optimizer="adamw_8bit",
        hardware=EIGHT,
        sharding={"implementation": "fsdp2", "zero_stage": 2},
        software={"framework": "torch"},
    )
    assert not offered(job, ChangeKind.SHARDING)
    assert not offered(job, ChangeKind.OFFLOAD)


def test_weights_of_eight_bits_are_not_sharded() -> None:
    """Peft's guides shard 4-bit bases, whose storage is a float tensor (``bnb_4bit_quant_storage``)."""
    job = a_full_job(
        method={"kind": "qlora", "quantization": "int8"},
        hardware=EIGHT,
        sharding={"implementation": "deepspeed", "zero_stage": 2},
    )
    assert not offered(job, ChangeKind.SHARDING)


@pytest.mark.parametrize(
    ("framework", "sharding"),
    [
        ("transformers", {"implementation": "fsdp", "offload_parameters": "cpu"}),
        ("deepspeed", {"implementation": "deepspeed", "offload_parameters": "cpu"}),
        ("megatron", {"implementation": "megatron", "zero_stage": 1, "offload_optimizer": "cpu"}),
    ],
)
def test_what_is_in_host_memory_is_not_moved_there_again(framework: str, sharding: Json) -> None:
    job = a_full_job(
        task="pretrain", hardware=EIGHT, sharding=sharding, software={"framework": framework}
    )
    assert not offered(job, ChangeKind.OFFLOAD)


def test_states_on_disk_stay_there_when_parameters_are_moved() -> None:
    base = a_full_job(
        precision="bf16-master",
        micro_batch_size=1,
        sequence_length=512,
        sharding={"implementation": "deepspeed", "zero_stage": 3, "offload_optimizer": "nvme"},
    )
    wanted = {**base["sharding"], "offload_parameters": "cpu"}
    change = of_kind(changes_of(on_card_for(base, sharding=wanted)), ChangeKind.OFFLOAD)
    assert values(change) == {"sharding.offload_parameters": ("none", "cpu")}


def test_images_are_not_cut_short() -> None:
    """A picture of 224 by 224 in patches of 16 has 196 of them whatever sequence_length says."""
    job = a_full_job(
        model={"name": "google/vit-base-patch16-224"}, task="classification", micro_batch_size=64
    )
    assert not offered(job, ChangeKind.SEQUENCE)
    assert offered(job, ChangeKind.BATCH)


def test_optimizer_is_offloaded_before_parameters() -> None:
    """ZeRO-Offload on one card: 2 bytes a parameter stay (arXiv 2101.06840, figure 1), and activations."""
    base = a_full_job(precision="bf16-master", micro_batch_size=1, sequence_length=512)
    wanted = {"implementation": "deepspeed", "zero_stage": 2, "offload_optimizer": "cpu"}
    change = of_kind(changes_of(on_card_for(base, sharding=wanted)), ChangeKind.OFFLOAD)
    assert change.description.sharding.offload_optimizer == "cpu"
    assert change.description.sharding.offload_parameters == "none"
    assert "GiB of it in host memory" in change.cost


def test_optimizer_keeps_eight_bit_states() -> None:
    job = on_card_for(a_full_job(micro_batch_size=1), optimizer="adamw_8bit")
    change = of_kind(changes_of(job), ChangeKind.OPTIMIZER)
    assert values(change)["optimizer.name"] == ("adamw", "adamw_8bit")
    assert change.cost.startswith("changes the numbers")


def test_method_becomes_lora_with_the_frameworks_adapters() -> None:
    """Peft's rank for Llama is 8, on the query and value projections (peft ``LoraConfig``)."""
    base = a_full_job(micro_batch_size=1, activation_checkpointing="full")
    change = of_kind(changes_of(on_card_for(base, method="lora")), ChangeKind.METHOD)
    changed = values(change)
    assert changed["method.kind"] == ("full", "lora")
    assert changed["method.rank"] == (None, 8)
    assert changed["method.target_modules"] == (None, ["q_proj", "v_proj"])
    assert change.slowdown is None


def test_frozen_base_is_held_in_what_it_computes_in() -> None:
    """fp32 weights of 8 B parameters are 32 GB that nobody updates; 16 bits take half."""
    base = a_full_job(micro_batch_size=1, precision="bf16-mixed", activation_checkpointing="full")
    job = on_card_for(base, method="lora", precision="bf16-true")
    change = of_kind(changes_of(job), ChangeKind.METHOD)
    assert values(change)["precision.weights"] == ("fp32", "bf16")


def test_qlora_holds_65_billion_parameters_on_48_gb() -> None:
    """QLoRA (arXiv 2305.14314), abstract: a 65B model is finetuned on a single 48 GB GPU.

    The scales of its 4-bit weights are quantised too, axolotl's default.
    """
    base = a_full_job(
        model={"name": "huggyllama/llama-65b"},
        method={"kind": "lora", "rank": 64},
        micro_batch_size=1,
        sequence_length=512,
        activation_checkpointing="full",
        hardware={"accelerator": "rtx-6000-ada"},
        software={"framework": "axolotl"},
    )
    change = of_kind(changes_of(base), ChangeKind.METHOD)
    changed = values(change)
    assert changed["method.kind"] == ("lora", "qlora")
    assert changed["method.quantization"] == (None, "nf4")
    assert "method.rank" not in changed


@pytest.mark.parametrize("framework", ["transformers", "torchtune", "megatron"])
def test_pretraining_is_offered_no_adapters(framework: str) -> None:
    job = a_full_job(task="pretrain", software={"framework": framework})
    assert all(ChangeKind.METHOD not in change.kinds for change in changes_of(job))


def test_rows_are_shortened_to_powers_of_two_and_not_below_512() -> None:
    base = a_full_job(micro_batch_size=1, sequence_length=5000)
    job = on_card_for(base, sequence_length=2048)
    assert values(of_kind(changes_of(job), ChangeKind.SEQUENCE)) == {
        "sequence_length": (5000, 2048)
    }
    job = on_card_for(base, sequence_length=256)
    assert all(ChangeKind.SEQUENCE not in change.kinds for change in changes_of(job))


def test_devices_are_doubled_and_the_steps_halved_where_states_are_sharded() -> None:
    """ZeRO-3 on 8 ranks holds 16/8 = 2 bytes a parameter, on 16 ranks 1."""
    base = a_full_job(
        precision="bf16-master",
        micro_batch_size=1,
        gradient_accumulation_steps=4,
        activation_checkpointing="full",
        sequence_length=512,
        hardware={"accelerator": CARD, "devices": 8},
        sharding={"implementation": "deepspeed", "zero_stage": 3},
    )
    job = on_card_for(
        base, hardware={"accelerator": CARD, "devices": 16}, gradient_accumulation_steps=2
    )
    change = of_kind(changes_of(job), ChangeKind.DEVICES)
    changed = values(change)
    assert changed["hardware.devices"] == (8, 16)
    assert changed["gradient_accumulation_steps"] == (4, 2)


def test_devices_do_not_help_where_each_holds_everything() -> None:
    job = a_full_job(
        hardware={"accelerator": CARD, "devices": 8}, sharding={"implementation": "ddp"}
    )
    assert all(ChangeKind.DEVICES not in change.kinds for change in changes_of(job))


def test_card_is_the_smallest_of_its_maker_that_holds_the_job() -> None:
    """8.03 B parameters at 2 + 2 + 4 bytes are 59.8 GiB: too much for 40 GB, with 20 % on it within 80."""
    job = a_full_job(
        micro_batch_size=1,
        sequence_length=512,
        activation_checkpointing="full",
        hardware={"accelerator": "a100-sxm4-40gb"},
    )
    change = of_kind(changes_of(job), ChangeKind.ACCELERATOR)
    card = builtin_accelerators().get(str(change.description.hardware.accelerator))
    assert card is not None
    assert card.vendor == "NVIDIA"
    assert 79 * 2**30 < card.usable_bytes < 80 * 2**30


def test_card_is_no_slow_one_with_much_memory() -> None:
    """A GB10 has 120 GiB at 0.27 TB/s, a twelfth of an H100's 3.35; the next larger card is an H200."""
    job = a_full_job(
        micro_batch_size=3, sequence_length=2048, hardware={"accelerator": "h100-sxm5-80gb"}
    )
    assert 96 * 2**30 < 1.2 * required_bytes(described(job)) < 119 * 2**30
    change = of_kind(changes_of(job), ChangeKind.ACCELERATOR)
    assert change.description.hardware.accelerator in {"h200-sxm-141gb", "h200-nvl"}
