"""Among many commands, the one that trains is found and read."""

import pytest

from vramgate.launch.commands.program_names import Recognised, recognise
from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.files import Files
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch
from vramgate.launch.words import Word

MODEL = "--model_name_or_path gpt2"


def _read(command: str | list[str], **more: dict[str, str]) -> ParsedLaunch:
    return read_launch(Launch(command=command, **more))  # type: ignore[arg-type]


def _codes(parsed: ParsedLaunch) -> set[str]:
    return {warning.code for warning in parsed.warnings}


def _recognised(line: str) -> Recognised | None:
    program, *texts = line.removeprefix("python:").split()
    words = [Word(text=text, source="") for text in texts]
    return recognise(program, words, Files(), is_python=line.startswith("python:"))


@pytest.mark.parametrize(
    ("line", "framework"),
    [
        ("llamafactory-cli train a.yaml", "llama_factory"),
        ("/opt/conda/bin/llamafactory-cli train a.yaml", "llama_factory"),
        ("lmf train a.yaml", "llama_factory"),
        ("src/train.py a.yaml", "llama_factory"),
        ("/w/LLaMA-Factory/src/train.py --stage sft --finetuning_type lora", "llama_factory"),
        ("src/train_bash.py --stage sft", "llama_factory"),
        ("/x/site-packages/llamafactory/launcher.py a.yaml", "llama_factory"),
        ("axolotl train a.yml", "axolotl"),
        ("python:axolotl.cli.train a.yml", "axolotl"),
        ("/x/axolotl/cli/train.py a.yml", "axolotl"),
        ("tune run full_finetune_distributed --config llama3/8B_full", "torchtune"),
        ("/x/torchtune/_cli/tune.py run lora_finetune_single_device --config a", "torchtune"),
        ("recipes/full_finetune_distributed.py --config a.yaml", "torchtune"),
        ("trl sft --model_name_or_path m", "trl"),
        ("trl.scripts.dpo --model_name_or_path m", "trl"),
        ("/x/trl/scripts/grpo.py --model_name_or_path m", "trl"),
        ("examples/scripts/sft.py --model_name_or_path m", "trl"),
        ("scripts/run_sft.py recipes/a.yaml", "trl"),
        ("litgpt finetune_lora meta-llama/x", "litgpt"),
        ("litgpt finetune meta-llama/x", "litgpt"),
        ("/x/litgpt/finetune/lora.py --checkpoint_dir a", "litgpt"),
        ("/x/litgpt/__main__.py pretrain pythia-14m", "litgpt"),
        ("python:torchtitan.train --module llama3 --config llama3_8b", "torchtitan"),
        ("torchtitan/train.py --job.config_file a.toml", "torchtitan"),
        ("./train.py --job.config_file=a.toml", "torchtitan"),
        ("./run_train.sh", "torchtitan"),
        ("pretrain_gpt.py --deepspeed --deepspeed_config a.json", "megatron"),
        ("my_pretrain.py --num-layers 2 --micro-batch-size 1", "megatron"),
        ("swift sft --model m", "ms-swift"),
        ("swift.cli.rlhf --model m", "ms-swift"),
        ("/x/swift/cli/sft.py --model m", "ms-swift"),
        ("train.py --deepspeed --deepspeed_config a.json", "deepspeed"),
        ("train.py --deepspeed --lr 1", "deepspeed"),
        ("train.py --deepspeed a.json", "deepspeed"),
        ("train.py --deepspeed a.json --output_dir o", "transformers"),
        ("src/train.py --output_dir o", "transformers"),
        ("train.py", "transformers"),
        ("python:my_package.training --x 1", "transformers"),
        ("python:train --x 1", "transformers"),
        ("python:litgpt pretrain pythia-14m", "litgpt"),
        ("sitecustom.py --x 1", "transformers"),
    ],
)
def test_a_program_is_known_by_its_name_or_its_words(line: str, framework: str) -> None:
    found = _recognised(line)

    assert found is not None
    assert found.framework == framework


@pytest.mark.parametrize(
    "line",
    [
        "llamafactory-cli chat a.yaml",
        "llamafactory-cli",
        "axolotl preprocess a.yml",
        "tune download m",
        "trl env",
        "litgpt download m",
        "swift infer --model m",
        "pip install x",
        "wget http://x",
        "mkdir",
        "./my_binary --train",
        "tools/preprocess_data.py --input a",
        "convert_checkpoint.py",
        "evaluate.py --model m",
        "python:vllm.entrypoints.openai.api_server --model m",
        "python:pip install x",
        "python:torch.utils.collect_env",
        "train --x 1",
    ],
)
def test_what_prepares_or_serves_does_not_train(line: str) -> None:
    assert _recognised(line) is None


def test_a_training_goes_before_what_may_be_one() -> None:
    parsed = _read(f"python stage_files.py && python train.py {MODEL}")

    assert parsed.provenance["model.name"].source.startswith("args")
    assert "several_trainings" not in _codes(parsed)


def test_under_a_launcher_a_script_of_any_name_trains() -> None:
    parsed = _read(f"python my_train.py --x; torchrun --nproc_per_node 2 stages.py {MODEL}")

    assert "several_trainings" in _codes(parsed)


def test_the_first_of_several_trainings_is_read() -> None:
    parsed = _read("python train.py --model_name_or_path a; python train.py --model_name_or_path b")

    assert parsed.job["model"]["name"] == "a"
    assert "several_trainings" in _codes(parsed)


def test_nothing_that_trains_leaves_the_model_unknown() -> None:
    parsed = _read("pip install x && ls")

    assert [one.field for one in parsed.unknown] == ["model"]
    assert "pip, ls" in parsed.unknown[0].reason


def test_no_command_at_all_leaves_the_model_unknown() -> None:
    assert [one.field for one in _read([]).unknown] == ["model"]


def test_one_process_before_many_devices_is_noted() -> None:
    parsed = _read(f"CUDA_VISIBLE_DEVICES=0,1 python train.py {MODEL}")

    assert parsed.job["hardware"]["devices"] == 2
    assert "one_process_many_devices" in _codes(parsed)


def test_tasks_of_slurm_are_not_the_processes_of_a_program_that_starts_its_own() -> None:
    environment = {"WORLD_SIZE": "2"}

    parsed = _read("axolotl train a.yml --launcher torchrun -- --nproc-per-node 8", env=environment)

    assert parsed.job["hardware"]["devices"] == 8


def test_accelerates_words_are_below_the_trainers() -> None:
    parsed = _read(
        f"accelerate launch --num_processes 2 --mixed_precision fp16 train.py {MODEL} --bf16 True"
    )

    assert parsed.job["precision"]["compute"] == "bf16"


def test_a_trainers_mixed_precision_is_deepspeeds_under_deepspeed() -> None:
    parsed = _read(f"accelerate launch --num_processes 2 --use_deepspeed train.py {MODEL} --fp16")

    precision = parsed.job["precision"]
    assert (precision["compute"], precision.get("autocast", False)) == ("fp16", False)


def test_a_deep_stack_of_wrappers_ends() -> None:
    parsed = _read("nohup " * 500 + f"python train.py {MODEL}")

    assert [one.field for one in parsed.unknown] == ["model"]


def test_words_without_end_are_read_in_time() -> None:
    parsed = _read(["torchrun", *["--rdzv_id", "x"] * 50_000, "train.py", *MODEL.split()])

    assert parsed.job["model"]["name"] == "gpt2"


def test_options_out_of_sight_leave_the_devices_unknown_and_the_script_known() -> None:
    parsed = _read(f"torchrun $DISTRIBUTED_ARGS train.py {MODEL}")

    assert parsed.job["model"]["name"] == "gpt2"
    assert "hardware.devices" in {one.field for one in parsed.unknown}


def test_a_modules_name_needs_no_dot() -> None:
    parsed = _read(f"deepspeed --num_gpus 2 --module train {MODEL}")

    assert parsed.job["hardware"]["devices"] == 2
