"""A site's own words: what each says, what is refused, what is left alone."""

from typing import Any

import pytest

from vramgate.launch.annotations.read import say_annotations
from vramgate.launch.draft import Draft, ParsedLaunch
from vramgate.launch.files import Files
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.words import Word
from vramgate.reporter.settings import VARIABLES


def said(
    values: dict[str, str],
    *,
    before: dict[str, Any] | None = None,
    files: dict[str, str] | None = None,
) -> ParsedLaunch:
    """Read annotations over what a command line said before."""
    draft = Draft()
    for field, value in (before or {}).items():
        draft.say(field, Found(value, "args[1]"))
    words = {name: Word(text=text, source=f"annotation {name}") for name, text in values.items()}
    say_annotations(words, Context(draft=draft, files=Files(files)))
    return draft.finished()


def fields(parsed: ParsedLaunch) -> dict[str, Any]:
    return {field: found.value for field, found in parsed.provenance.items()}


# The keys and values of the scheme in shared/JOBSPECS.md, section 3.
@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("model", "meta-llama/Llama-3.1-8B", {"model.name": "meta-llama/Llama-3.1-8B"}),
        ("model", "params=8.03e9", {"model.parameters": 8_030_000_000}),
        ("method", "full", {"method.kind": "full"}),
        ("method", "qlora", {"method.kind": "qlora"}),
        ("method", "dora", {"method.kind": "lora", "method.dora": True}),
        ("micro-batch-size", "4", {"micro_batch_size": 4}),
        ("gradient-accumulation-steps", "8", {"gradient_accumulation_steps": 8}),
        ("seq-len", "8192", {"sequence_length": 8192}),
        ("optimizer", "adamw_8bit", {"optimizer.name": "adamw_8bit"}),
        ("activation-checkpointing", "none", {"activation_checkpointing.mode": "none"}),
        ("attention", "flash_attention_2", {"attention": "flash_attention_2"}),
        ("zero-stage", "3", {"sharding.zero_stage": 3}),
        ("tp", "8", {"parallelism.tensor_parallel_size": 8}),
        ("pp", "4", {"parallelism.pipeline_parallel_size": 4}),
        ("cp", "2", {"parallelism.context_parallel_size": 2}),
        ("ep", "8", {"parallelism.expert_parallel_size": 8}),
        (
            "offload",
            "optimizer",
            {"sharding.offload_optimizer": "cpu", "sharding.offload_parameters": "none"},
        ),
        (
            "offload",
            "both",
            {"sharding.offload_optimizer": "cpu", "sharding.offload_parameters": "cpu"},
        ),
        (
            "offload",
            "none",
            {"sharding.offload_optimizer": "none", "sharding.offload_parameters": "none"},
        ),
        ("lora-rank", "64", {"method.rank": 64}),
        ("lora-targets", "q_proj, v_proj", {"method.target_modules": ["q_proj", "v_proj"]}),
        ("lora-targets", "all-linear", {"method.target_modules": "all-linear"}),
        ("lora-targets", r".*\.(q|v)_proj", {"method.target_modules": r".*\.(q|v)_proj"}),
        ("quantization", "nf4", {"method.quantization": "nf4"}),
        ("packing", "padding_free", {"packing": "padding_free"}),
        ("packing", "true", {"packing": "packed"}),
        ("packing", "false", {"packing": "padded"}),
        (
            "liger",
            "true",
            {"fused_kernels": ["rms_norm", "rope", "swiglu"], "loss": "fused_linear"},
        ),
        ("stack", "transformers 4.51", {"software.stack": "transformers 4.51"}),
        ("accelerator", "NVIDIA-L4", {"hardware.accelerator": "NVIDIA-L4"}),
        ("devices", "16", {"hardware.devices": 16}),
        ("devices-per-node", "8", {"hardware.devices_per_node": 8}),
        ("device-memory-bytes", "80e9", {"hardware.device_memory_bytes": 80_000_000_000}),
    ],
)
def test_each_key_says_its_field(key: str, value: str, expected: dict[str, Any]) -> None:
    parsed = said({key: value})

    assert fields(parsed) == expected
    assert (parsed.problems, parsed.warnings, parsed.unknown) == ((), (), ())
    assert {found.source for found in parsed.provenance.values()} == {f"annotation {key}"}


@pytest.mark.parametrize(
    "name", ["vramgate.dev/seq-len", "VRAMGATE_SEQ_LEN", "seq-len", "seq_len", "vramgate/seq-len"]
)
def test_a_key_is_known_in_every_spelling(name: str) -> None:
    assert fields(said({name: "2048"})) == {"sequence_length": 2048}


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("zero-stage", "4", "one of 0, 1, 2, 3"),
        ("micro-batch-size", "0", "1 or more"),
        ("micro-batch-size", "four", "a whole number"),
        ("fsdp", "zero3", "off, full_shard, shard_grad_op, hybrid"),
        ("offload", "disk", "none, optimizer, param, both"),
        ("activation-checkpointing", "yes", "none, selective, full"),
        ("method", "prefix", "full, lora, qlora, dora, freeze"),
        ("precision", "bf16", "bf16-mixed"),
        ("attention", "fast", "sdpa"),
        ("quantization", "int3", "nf4"),
        ("packing", "maybe", "packed, padded, padding_free"),
        ("model", "params=many", "params=8.03e9"),
        ("model", "params=8e9,depth=3", "params=8.03e9"),
        ("liger", "perhaps", "true or false"),
    ],
)
def test_a_value_that_is_not_allowed_is_a_problem(key: str, value: str, allowed: str) -> None:
    parsed = said({key: value})

    assert [one.rule for one in parsed.problems] == ["not_a_value"]
    assert allowed in parsed.problems[0].detail
    assert fields(parsed) == {}


def test_a_preset_replaces_every_number_format_but_that_of_the_products() -> None:
    before = {
        "precision.weights": "fp16",
        "precision.gradients": "fp16",
        "precision.linear": "fp8-rowwise",
    }

    parsed = said({"precision": "bf16-master"}, before=before)

    # DESIGN.md section 2: bf16-master is 2/2/4/8, its gradients the framework's to say.
    assert parsed.job["precision"] == {
        "weights": "bf16",
        "compute": "bf16",
        "autocast": False,
        "master_weights": True,
        "optimizer_states": "fp32",
        "linear": "fp8-rowwise",
    }


# Strategies in the words of DESIGN.md section 2: full shard 3, shard-grad-op 2, hybrid 3 over a node.
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("full_shard", {"implementation": "fsdp", "zero_stage": 3, "reshard_after_forward": True}),
        (
            "shard_grad_op",
            {"implementation": "fsdp", "zero_stage": 2, "reshard_after_forward": False},
        ),
        (
            "hybrid",
            {
                "implementation": "fsdp",
                "zero_stage": 3,
                "reshard_after_forward": True,
                "shard_group_size": 8,
            },
        ),
    ],
)
def test_a_strategy_of_fsdp_is_a_stage(strategy: str, expected: dict[str, Any]) -> None:
    parsed = said({"fsdp": strategy, "devices-per-node": "8"})

    assert parsed.job["sharding"] == expected


def test_a_strategy_leaves_the_version_of_fsdp() -> None:
    parsed = said({"fsdp": "FULL_SHARD"}, before={"sharding.implementation": "fsdp2"})

    assert parsed.job["sharding"]["implementation"] == "fsdp2"


def test_fsdp_off_drops_fsdp_and_nothing_else() -> None:
    fsdp = {"sharding.implementation": "fsdp", "sharding.zero_stage": 3}
    deepspeed = {"sharding.implementation": "deepspeed", "sharding.zero_stage": 3}

    assert said({"fsdp": "off"}, before=fsdp).job["sharding"] == {"implementation": "ddp"}
    assert said({"fsdp": "off"}, before=deepspeed).job["sharding"] == {
        "implementation": "deepspeed",
        "zero_stage": 3,
    }


def test_hybrid_sharding_needs_the_size_of_a_node() -> None:
    parsed = said({"fsdp": "hybrid"})

    assert [one.field for one in parsed.unknown] == ["sharding.shard_group_size"]


def test_no_liger_takes_its_loss_back() -> None:
    before = {"loss": "fused_linear", "fused_kernels": ["rope"]}

    assert fields(said({"liger": "false"}, before=before)) == {
        "loss": "standard",
        "fused_kernels": [],
    }


def test_sizes_that_make_up_a_model_are_its_config() -> None:
    # Llama 3.1 8B's config.json; its count is 8 030 261 248.
    sizes = (
        "params=8.03e9,layers=32,hidden=4096,intermediate=14336,heads=32,kv-heads=8,vocab=128256"
    )

    parsed = said({"model": sizes}, before={"model.name": "other/model"})

    assert parsed.job["model"] == {
        "config": {
            "model_type": "llama",
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
        }
    }


def test_sizes_of_another_model_leave_the_count() -> None:
    parsed = said(
        {"model": "params=7e9,layers=32,hidden=4096,intermediate=14336,heads=32,vocab=128256"}
    )

    assert parsed.job["model"] == {"parameters": 7_000_000_000}
    assert [one.code for one in parsed.warnings] == ["model_sizes_not_taken"]


def test_too_few_sizes_leave_the_model_unknown() -> None:
    parsed = said({"model": "layers=32,hidden=4096"})

    assert [one.field for one in parsed.unknown] == ["model.parameters"]


def test_a_config_that_came_along_is_the_model() -> None:
    parsed = said(
        {"model": "configs/config.json"},
        before={"model.name": "/mnt/model"},
        files={"configs/config.json": '{"model_type": "llama"}'},
    )

    assert parsed.job["model"] == {"config": {"model_type": "llama"}}


def test_a_vocabulary_is_told_only_of_a_config() -> None:
    of_config = said({"vocab-size": "64000"}, before={"model.config": {"vocab_size": 32000}})
    of_name = said({"vocab-size": "64000"}, before={"model.name": "meta-llama/Llama-3.1-8B"})

    assert of_config.job["model"] == {"config": {"vocab_size": 64000}}
    assert [one.code for one in of_name.warnings] == ["vocab_size_not_taken"]


def test_a_spec_wins_over_the_other_words() -> None:
    spec = """{"job": {"model": {"name": "Qwen/Qwen2.5-7B"}, "method": "lora", "precision": "bf16-true",
               "micro_batch_size": 2, "parallelism": {"tensor_parallel_size": 2}}, "risk": 0.01}"""

    parsed = said({"spec": spec, "micro-batch-size": "8", "seq-len": "1024"})

    assert parsed.job["micro_batch_size"] == 2
    assert parsed.job["sequence_length"] == 1024
    assert parsed.job["model"] == {"name": "Qwen/Qwen2.5-7B"}
    assert parsed.job["method"] == {"kind": "lora"}
    assert parsed.job["precision"]["weights"] == "bf16"
    assert parsed.provenance["parallelism.tensor_parallel_size"].source == (
        "annotation spec: parallelism.tensor_parallel_size"
    )


@pytest.mark.parametrize(
    "spec",
    ['{"job": ', "[1]", '{"job": 3}', "null", '{"a": 1}' + " " * 4096, '{"job": {"batch": 1}}'],
)
def test_a_spec_that_is_none_is_left_out_with_a_warning(spec: str) -> None:
    parsed = said({"spec": spec, "seq-len": "1024"})

    assert {one.code for one in parsed.warnings} == {"bad_annotation"}
    assert fields(parsed) == {"sequence_length": 1024}
    assert parsed.problems == ()


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        ('"micro_batch_size": "four"', "a whole number"),
        ('"micro_batch_size": true', "a whole number"),
        ('"compile": "yes"', "true or false"),
        ('"attention": "fast"', "one of eager, sdpa"),
        ('"fused_kernels": ["gelu"]', "one of rms_norm"),
        ('"method": {"target_modules": 3}', "a text or a list of texts"),
        ('"model": {"name": 3}', "a text"),
        ('"precision": "half"', "one of fp32"),
        ('"sharding": {"offload_optimizer": "disk"}', "one of none, cpu, nvme"),
        ('"method": {"dropout": "a"}', "a number"),
    ],
)
def test_a_leaf_of_a_spec_is_what_the_field_takes(leaf: str, expected: str) -> None:
    parsed = said({"spec": f'{{"job": {{{leaf}}}}}'})

    assert [one.rule for one in parsed.problems] == ["not_a_value"]
    assert expected in parsed.problems[0].detail


def test_words_settle_what_was_out_of_sight() -> None:
    draft = Draft()
    for group in ("sharding", "method", "optimizer", "precision", "model"):
        draft.unknown(group, Unseen("args[3] --deepspeed", "ds.json is not among the files"))
    draft.unknown("sharding.wrap", Unseen("args[5]", "$WRAP has no value here"))
    values = {
        "zero-stage": "3",
        "method": "full",
        "optimizer": "sgd",
        "precision": "fp32",
        "model": "a/b",
    }
    words = {name: Word(text=text, source=name) for name, text in values.items()}

    say_annotations(words, Context(draft=draft, files=Files()))

    assert [one.field for one in draft.finished().unknown] == ["sharding.wrap"]


def test_what_the_service_writes_is_never_read_back() -> None:
    ours = (
        "decision",
        "decision-id",
        "estimated-peak-bytes",
        "estimated-upper-bytes",
        "policy-version",
        "calibration-version",
        "mode",
    )

    parsed = said({f"vramgate.dev/{name}": "8" for name in ours})

    assert (fields(parsed), parsed.warnings) == ({}, ())


def test_the_reporters_variables_say_nothing_of_the_job() -> None:
    parsed = said(dict.fromkeys(VARIABLES, "8"))

    assert (fields(parsed), parsed.warnings, parsed.problems) == ({}, (), ())


def test_a_slip_of_the_pen_is_named() -> None:
    annotation = said({"vramgate.dev/micro-batchsize": "8"}).warnings
    variable = said({"VRAMGATE_MICRO_BATCHSIZE": "8"}).warnings

    assert [one.code for one in (*annotation, *variable)] == ["unknown_annotation"] * 2
    assert all("micro-batch-size" in one.message for one in (*annotation, *variable))


def test_an_unresolved_word_is_unknown() -> None:
    draft = Draft()
    word = Word(text="$BATCH", source="env VRAMGATE_MICRO_BATCH_SIZE", unresolved=("$BATCH",))

    say_annotations({"VRAMGATE_MICRO_BATCH_SIZE": word}, Context(draft=draft, files=Files()))

    assert [one.field for one in draft.finished().unknown] == ["micro_batch_size"]


def test_an_optimizer_may_have_any_frameworks_name() -> None:
    assert fields(said({"optimizer": "adamw_torch_fused"})) == {
        "optimizer.name": "adamw",
        "optimizer.implementation": "fused",
    }
