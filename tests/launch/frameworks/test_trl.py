"""TRL's trainers by name and by configuration, and what its versions change."""

import pytest

from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.frameworks.trl.trainers import trainer_named
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

COMMAND = "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name stanfordnlp/imdb"


def parsed(options: str = "", *, command: str = COMMAND, stack: str | None = None) -> ParsedLaunch:
    env = {"VRAMGATE_STACK": stack} if stack else {}
    return read_launch(Launch(command=f"{command} {options}", env=env))


def codes(parse: ParsedLaunch) -> set[str]:
    return {one.code for one in parse.warnings}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("sft", "sft"),
        ("examples/scripts/sft_vlm_gemma3.py", "sft"),
        ("run_dpo.py", "dpo"),
        ("trl.scripts.kto", "kto"),
        ("reward_modeling.py", "reward"),
        ("orpo.py", "orpo"),
        ("grpo", None),
        ("cpo", None),
        ("something_else.py", None),
    ],
)
def test_a_name_is_a_trainer(name: str, task: str | None) -> None:
    assert trainer_named(name).task == task


@pytest.mark.parametrize(
    ("stack", "refused"), [("trl 0.24", False), ("trl 0.26", True), ("trl 1.16", True)]
)
def test_padding_free_rows_longer_than_allowed_are_refused_from_0_26_on(
    stack: str, refused: bool
) -> None:
    parse = parsed("--padding_free", stack=stack)

    assert bool(parse.problems) is refused


def test_padding_free_without_a_length_is_allowed() -> None:
    launch = Launch(
        framework="trl",
        config={
            "model_name_or_path": "gpt2",
            "packing": False,
            "padding_free": True,
            "max_length": None,
        },
    )
    parse = read_launch(launch)

    assert parse.problems == ()
    assert {one.field for one in parse.unknown} == {"sequence_length"}


def test_packing_without_flash_attention_is_warned_of() -> None:
    assert "packing_without_flash_attention" in codes(parsed("--packing"))
    assert "packing_without_flash_attention" not in codes(
        parsed("--packing --attn_implementation flash_attention_2")
    )
    assert "packing_without_flash_attention" not in codes(
        parsed("--packing --packing_strategy wrapped")
    )


def test_the_older_length_counts_where_both_are_given() -> None:
    # sft_config.py 0.16: max_seq_length replaces max_length where it is given.
    assert parsed("--max_length 512 --max_seq_length 256").job["sequence_length"] == 256


def test_adapters_need_their_switch() -> None:
    assert "method" not in parsed("--lora_r 8 --lora_target_modules q_proj").job


def test_vllm_beside_the_trainer_is_warned_of_with_its_share() -> None:
    parse = parsed(
        "--use_vllm --vllm_gpu_memory_utilization 0.25",
        command="trl grpo --model_name_or_path gpt2 --max_completion_length 256",
    )

    (message,) = [one.message for one in parse.warnings if one.code == "vllm_beside_the_trainer"]
    assert "25%" in message


def test_vllm_on_a_server_takes_nothing_of_the_card() -> None:
    parse = parsed("--use_vllm --vllm_mode server", command="trl grpo --model_name_or_path gpt2")

    assert "vllm_beside_the_trainer" not in codes(parse)


def test_a_row_of_grpo_is_a_bounded_prompt_and_its_completion() -> None:
    parse = parsed(
        "--max_prompt_length 512 --max_completion_length 256",
        command="trl grpo --model_name_or_path gpt2",
    )

    assert parse.job["sequence_length"] == 768


def test_a_precomputed_reference_is_counted_and_said() -> None:
    parse = parsed("--precompute_ref_log_probs", command="trl dpo --model_name_or_path gpt2")

    assert "reference_model_counted" in codes(parse)


def test_offloaded_activations_without_checkpointing_are_unknown() -> None:
    parse = parsed("--activation_offloading --no_gradient_checkpointing")

    assert {one.field for one in parse.unknown} == {"activation_checkpointing.offload"}


def test_chunked_nll_is_the_fused_head_where_trl_has_one() -> None:
    # sft_config.py 1.16.0: chunked_nll computes the loss the same way as nll.
    assert parsed("--loss_type chunked_nll", stack="trl 1.16").job["loss"] == "fused_linear"
    assert parsed("--loss_type chunked_nll", stack="trl 1.10").job["loss"] == "chunked"


def test_a_packaged_accelerate_file_is_assumed_and_options_count_over_it() -> None:
    parse = parsed("--accelerate_config zero2 --num_processes 2")

    assert parse.job["hardware"] == {"devices": 2, "devices_per_node": 2}
    assert "sharding.zero_stage" in {one.field for one in parse.assumptions}


def test_which_trainer_a_bare_configuration_is_for_is_unknown() -> None:
    config = {"model_name_or_path": "gpt2", "max_length": 512}
    parse = read_launch(Launch(framework="trl", config=config))

    assert {one.field for one in parse.unknown} == {"task"}
