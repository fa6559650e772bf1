"""accelerate's words, from files, flags and variables."""

from typing import Any

import pytest

from vramgate.launch.draft import Draft, ParsedLaunch
from vramgate.launch.files import Files
from vramgate.launch.frameworks.accelerate.reader import say_accelerate
from vramgate.launch.frameworks.accelerate.settings import of_environment
from vramgate.launch.launch import Context, Launch
from vramgate.launch.read import read_launch
from vramgate.launch.settings import Settings, of_document, of_flags
from vramgate.launch.words import Word

MODEL = "train.py --model_name_or_path gpt2"


def _said(settings: Settings, **files: str) -> ParsedLaunch:
    draft = Draft()
    say_accelerate(settings, Context(draft=draft, files=Files(files)))
    return draft.finished()


def _flags(line: str) -> Settings:
    words = line.split()
    return of_flags([Word(text=text, source=f"args[{i}]") for i, text in enumerate(words)])


def _config(**values: object) -> Settings:
    return of_document(values, "acc.yaml")


FSDP: dict[str, Any] = {
    "distributed_type": "FSDP",
    "mixed_precision": "bf16",
    "num_processes": 8,
    "fsdp_config": {"fsdp_version": 2, "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"},
}


def test_a_section_and_flags_beside_it_say_the_same() -> None:
    flags = _flags(
        "--use_fsdp --mixed_precision bf16 --num_processes 8 --fsdp_version 2"
        " --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP"
    )

    assert _said(flags).job == _said(_config(**FSDP)).job


def test_a_sections_keys_may_leave_its_name_out() -> None:
    short = {"version": 2, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}

    assert _said(_config(**{**FSDP, "fsdp_config": short})).job == _said(_config(**FSDP)).job


def test_a_flag_goes_before_the_file_it_names() -> None:
    text = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 1}\n"

    parsed = _said(_flags("--config_file acc.yaml --num_processes 4"), **{"acc.yaml": text})

    assert parsed.job["hardware"]["devices"] == 4
    assert (
        parsed.provenance["sharding.implementation"].source == "acc.yaml: fsdp_config.fsdp_version"
    )


def test_variables_say_what_flags_say() -> None:
    environment = {
        "ACCELERATE_USE_DEEPSPEED": "true",
        "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3",
        "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": "cpu",
        "ACCELERATE_DEEPSPEED_CONFIG_FILE": "none",
        "ACCELERATE_MIXED_PRECISION": "fp16",
        "HOME": "/root",
    }
    words = {name: Word(text=text, source=f"env {name}") for name, text in environment.items()}

    parsed = _said(of_environment(words))

    assert parsed.job["sharding"]["zero_stage"] == 3
    assert parsed.job["sharding"]["offload_optimizer"] == "cpu"
    assert parsed.job["precision"]["weights"] == "fp16"


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ("--use_deepspeed --zero_stage 4", "zero_stage_above_3"),
        ("--use_deepspeed --zero_stage 0 --offload_optimizer_device cpu", "offload_without_stage"),
        ("--use_deepspeed --offload_param_device disk --zero_stage 3", "not_a_value"),
        ("--use_deepspeed --use_fsdp", "accelerate_modes_conflict"),
        ("--mixed_precision int8", "not_a_value"),
        ("--num_processes many", "not_a_value"),
        ("--num_processes 0", "not_a_value"),
        ("--multi_gpu --use_parallelism_config", "parallelism_without_fsdp2"),
        ("--use_fsdp --fsdp_version 3", "not_a_value"),
    ],
)
def test_what_accelerate_refuses_is_a_problem(flags: str, rule: str) -> None:
    assert rule in [problem.rule for problem in _said(_flags(flags)).problems]


@pytest.mark.parametrize("said", [False, "no", "NO"])
def test_no_mixed_precision_says_nothing(said: object) -> None:
    assert "precision" not in _said(_config(distributed_type="NO", mixed_precision=said)).job


@pytest.mark.parametrize(
    ("config", "linear"),
    [
        ({"backend": "TE"}, "fp8-delayed"),
        ({"fp8_backend": "ao"}, "fp8-tensorwise"),
        ({"backend": "TE", "use_mxfp8_block_scaling": True}, "mxfp8"),
    ],
)
def test_fp8_is_bf16_with_lower_products(config: dict[str, Any], linear: str) -> None:
    parsed = _said(_config(distributed_type="NO", mixed_precision="fp8", fp8_config=config))

    precision = parsed.job["precision"]
    assert (precision["compute"], precision["linear"]) == ("bf16", linear)


def test_fp8_without_a_package_leaves_the_products_unknown() -> None:
    parsed = _said(_config(distributed_type="NO", mixed_precision="fp8"))

    assert [one.field for one in parsed.unknown] == ["precision.linear"]


def test_without_a_file_another_may_be_in_use() -> None:
    parsed = read_launch(Launch(command=f"accelerate launch --num_processes 2 {MODEL}"))

    assert "accelerate_default_config" in {warning.code for warning in parsed.warnings}


def test_a_file_that_was_not_sent_leaves_what_it_decides_unknown() -> None:
    parsed = read_launch(Launch(command=f"accelerate launch --config_file a.yaml {MODEL} --bf16"))

    unknown = {one.field for one in parsed.unknown}
    assert {"sharding", "hardware.devices"} <= unknown
    assert "precision" not in unknown


def test_context_parallel_ranks_share_a_sequence() -> None:
    sizes = {"cp_size": 2, "dp_shard_size": 4}

    parsed = _said(_config(**FSDP, parallelism_config=sizes))

    assert parsed.job["parallelism"] == {"context_parallel_size": 2}
    assert parsed.problems == ()


def test_sections_that_are_none_say_nothing() -> None:
    parsed = _said(_config(distributed_type="FSDP", fsdp_config=[1], parallelism_config=3))

    assert parsed.job["sharding"]["implementation"] == "fsdp"
