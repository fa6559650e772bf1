"""Options of Hugging Face scripts: precedence, versions, warnings, and what stays unsaid."""

import json

import pytest
import yaml

from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

COMMAND = "python train.py --model_name_or_path Qwen/Qwen2.5-0.5B --max_seq_length 1024"


def parsed(options: str = "", *, command: str = COMMAND, stack: str | None = None) -> ParsedLaunch:
    env = {"VRAMGATE_STACK": stack} if stack else {}
    return read_launch(Launch(command=f"{command} {options}", env=env))


def codes(parse: ParsedLaunch) -> set[str]:
    return {one.code for one in parse.warnings}


def test_the_last_of_a_repeated_option_counts() -> None:
    parse = parsed("--per_device_train_batch_size 8 --per_device_train_batch_size 2")

    assert parse.job["micro_batch_size"] == 2


def test_an_option_counts_over_the_file_before_it() -> None:
    told = {"model_name_or_path": "gpt2", "per_device_train_batch_size": 16, "bf16": True}
    launch = Launch(
        command="python run_clm.py args.yaml --per_device_train_batch_size=1",
        files={"args.yaml": yaml.safe_dump(told)},
    )
    parse = read_launch(launch)

    assert parse.job["micro_batch_size"] == 1
    assert parse.provenance["precision.compute"].source == "args.yaml: bf16"


def test_the_same_settings_are_the_same_job_as_flags_as_a_file_and_as_an_object() -> None:
    told = {
        "model_name_or_path": "Qwen/Qwen2.5-0.5B",
        "max_seq_length": 512,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "bf16": True,
        "optim": "paged_adamw_8bit",
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
    }
    flags = " ".join(
        f"--{name} '{json.dumps(value) if isinstance(value, dict) else value}'"
        for name, value in told.items()
    )
    as_flags = read_launch(Launch(command=f"python train.py {flags}"))
    as_file = read_launch(
        Launch(command="python train.py a.json", files={"a.json": json.dumps(told)})
    )
    as_object = read_launch(Launch(framework="transformers", config=told))

    assert as_flags.job == as_file.job == as_object.job


def test_what_a_script_does_not_say_stays_out_of_the_job() -> None:
    parse = parsed()

    assert set(parse.job) == {"software", "model", "sequence_length"}
    assert "script_not_seen" in codes(parse)


def test_a_script_without_a_length_leaves_it_unknown_with_the_way_out() -> None:
    (unknown,) = parsed(command="python train.py --model_name_or_path gpt2").unknown

    assert unknown.field == "sequence_length"
    assert "VRAMGATE_SEQ_LEN" in unknown.hint


def test_the_older_name_of_the_batch_counts_where_both_are_given() -> None:
    # training_args.py before 5.0, train_batch_size: per_gpu_train_batch_size or per_device_….
    parse = parsed("--per_gpu_train_batch_size 2 --per_device_train_batch_size 16")

    assert parse.job["micro_batch_size"] == 2


@pytest.mark.parametrize(
    ("stack", "implementation"),
    [
        ("transformers 4.45", "fsdp"),
        ("transformers 5.9", "fsdp"),
        ("transformers 5.10", "fsdp2"),
        ("transformers 5.24", "fsdp2"),
    ],
)
def test_fsdp_is_version_2_from_transformers_5_10_on(stack: str, implementation: str) -> None:
    parse = parsed("--fsdp 'full_shard auto_wrap' --bf16", stack=stack)

    assert parse.job["sharding"]["implementation"] == implementation
    assert "sharding.implementation" in {one.field for one in parse.assumptions}


@pytest.mark.parametrize(("stack", "stage"), [("transformers 5.2", 2), ("transformers 5.4", 3)])
def test_fsdp2_gives_gathered_weights_back_from_transformers_5_4_on(stack: str, stage: int) -> None:
    parse = parsed("--fsdp full_shard --fsdp_config '{\"version\": 2}'", stack=stack)

    assert parse.job["sharding"]["zero_stage"] == stage


def test_without_auto_wrap_old_fsdp_gathers_the_whole_model() -> None:
    # training_args.py before 5.10 sets a wrap policy for auto_wrap alone.
    parse = parsed("--fsdp full_shard", stack="transformers 4.45")

    assert parse.job["sharding"]["wrap"] == "none"


def test_an_fsdp_word_that_is_none_is_a_problem() -> None:
    parse = parsed("--fsdp 'full_shard autowrap'")

    assert {one.rule for one in parse.problems} == {"fsdp_option_unknown"}


@pytest.mark.parametrize("off", ["--fsdp ''", "--fsdp False", "--output_dir out --deepspeed ''"])
def test_sharding_that_is_off_says_nothing(off: str) -> None:
    assert "sharding" not in parsed(off).job


def test_adapters_under_fsdp_leave_the_frozen_weights_as_loaded() -> None:
    # accelerate 1.15.0 accelerator.py casts what requires a gradient alone.
    parse = parsed("--fsdp full_shard --bf16 --torch_dtype bfloat16 --use_peft --lora_r 8")

    assert parse.job["precision"]["weights"] == "bf16"


def test_a_dtype_of_the_checkpoint_is_an_assumption() -> None:
    parse = parsed("--torch_dtype auto", stack="transformers 4.45")

    assert parse.job["precision"] == {"weights": "bf16"}
    assert [one.field for one in parse.assumptions] == ["precision.weights"]


def test_a_dtype_that_torch_has_not_is_a_problem() -> None:
    assert {one.rule for one in parsed("--torch_dtype bf17").problems} == {"not_a_value"}


def test_an_object_that_is_no_json_is_a_problem() -> None:
    parse = parsed("--gradient_checkpointing_kwargs '{use_reentrant: no}'")

    assert {one.rule for one in parse.problems} == {"not_a_value"}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--auto_find_batch_size", "auto_find_batch_size"),
        ("--torch_empty_cache_steps 4", "torch_empty_cache_steps"),
        ("--fp16 --half_precision_backend apex", "apex_amp"),
        ("--accelerator_config '{\"split_batches\": true}'", "split_batches"),
        ("--per_device_train_batch_size 1 --eval_strategy epoch", "evaluation_may_peak"),
        (
            "--per_device_train_batch_size 4 --evaluation_strategy steps --per_device_eval_batch_size 16",
            "evaluation_may_peak",
        ),
    ],
)
def test_what_misleads_is_said(options: str, code: str) -> None:
    assert code in codes(parsed(options))


@pytest.mark.parametrize(
    "options",
    [
        "--per_device_train_batch_size 1 --eval_strategy no",
        "--per_device_train_batch_size 8 --eval_strategy steps",
    ],
)
def test_an_evaluation_that_is_no_larger_is_not_warned_of(options: str) -> None:
    assert "evaluation_may_peak" not in codes(parsed(options))


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ("--use_lora False --lora_r 8", {"kind": "full"}),
        (
            "--lora_enable True --lora_r 128 --bits 4",
            {"kind": "qlora", "rank": 128, "quantization": "nf4"},
        ),
        ("--lora_enable True --bits 8", {"kind": "qlora", "quantization": "int8"}),
        ("--lora_enable True --bits 16", {"kind": "lora"}),
        ("--use_lora True --q_lora True", {"kind": "qlora"}),
        ("--full_finetune True --bits 16", {"kind": "full"}),
        ("--lora_r 8", {"kind": "lora", "rank": 8}),
    ],
)
def test_switches_of_known_scripts_say_what_trains(options: str, method: dict[str, object]) -> None:
    # LLaVA train.py, Qwen finetune.py, qlora.py.
    assert parsed(options).job["method"] == method


def test_full_finetuning_takes_back_what_a_script_adapts() -> None:
    command = "python qlora.py --model_name_or_path huggyllama/llama-7b --full_finetune --bits 16"

    assert parsed(command=command).job["method"] == {"kind": "full"}


def test_sixteen_bits_are_lora_in_a_script_that_quantises() -> None:
    method = parsed(
        command="python qlora.py --model_name_or_path huggyllama/llama-7b --bits 16"
    ).job["method"]

    assert method["kind"] == "lora"
    assert "quantization" not in method


@pytest.mark.parametrize(
    ("word", "attention"),
    [
        ("eager", "eager"),
        ("flash_attention_3", "flash_attention_3"),
        ("flex_attention", "flex"),
        ("kernels-community/flash-attn2@v1.0:kernel", "flash_attention_2"),
    ],
)
def test_attention_is_read_by_its_name(word: str, attention: str) -> None:
    assert parsed(f"--attn_implementation {word}").job["attention"] == attention


def test_an_attention_without_a_row_is_unknown() -> None:
    assert {one.field for one in parsed("--attn_implementation sage").unknown} == {"attention"}


def test_a_model_from_scratch_is_its_configuration() -> None:
    parse = parsed(
        command="python run_clm.py --config_name openai-community/gpt2 --tokenizer_name gpt2"
    )

    assert parse.job["model"] == {"name": "openai-community/gpt2"}


def test_a_family_with_sizes_of_its_own_is_unknown() -> None:
    parse = parsed(
        command="python run_clm.py --model_type gpt2 --config_overrides n_embd=1024,n_layer=24"
    )

    assert {one.field for one in parse.unknown} == {"model"}
