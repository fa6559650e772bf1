"""Slurm's options: how ``#SBATCH`` lines are read, what they ask for, what Slurm then sets."""

from collections.abc import Mapping

import pytest

from vramgate.launch.draft import Draft, ParsedLaunch
from vramgate.launch.files import Files
from vramgate.launch.launch import Context, Launch
from vramgate.launch.read import read_launch
from vramgate.launch.slurm.request import say_slurm_request
from vramgate.launch.slurm.words import header_options, header_words, slurm_words
from vramgate.launch.words import Word


def asked(*lines: str) -> tuple[ParsedLaunch, Mapping[str, str]]:
    """Return what ``#SBATCH`` lines ask for, and the variables that Slurm sets."""
    script = "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines)
    draft = Draft()
    variables = say_slurm_request(header_options(script), Context(draft=draft, files=Files()))
    return draft.finished(), {name: word.text for name, word in variables.items()}


def hardware(*lines: str) -> Mapping[str, object]:
    found: Mapping[str, object] = asked(*lines)[0].job.get("hardware", {})
    return found


def unknown(*lines: str) -> set[str]:
    return {one.field for one in asked(*lines)[0].unknown}


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (" --nodes=2 -n 4", ["--nodes=2", "-n", "4"]),
        (' --job-name="a b" # why', ["--job-name=a b"]),
        (" --comment='it#s' x#y", ["--comment=it#s", "x"]),
        (r" --output=a\ b", ["--output=a b"]),
        ("\t-N\t2", ["-N", "2"]),
    ],
)
def test_a_line_is_split_as_get_argument_does(line: str, words: list[str]) -> None:
    assert header_words(line) == words


def test_only_lines_above_the_first_command_count_and_the_last_wins() -> None:
    script = (
        "#!/bin/bash\n# a comment\n\n#SBATCH --nodes=2\n  #SBATCH --nodes=3\n##SBATCH --nodes=5\n"
        "#SBATCH --nodes=4\ndate\n#SBATCH --nodes=9\n"
    )

    assert header_options(script)["nodes"] == Word(text="4", source="line 7, #SBATCH --nodes")


def test_of_a_job_of_components_the_first_counts() -> None:
    assert header_options("#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N8\n")["nodes"].text == "1"


def test_a_command_line_ends_where_the_command_begins() -> None:
    texts = ["-N2", "-n", "8", "--gpus-per-task=1", "--exclusive", "-vl", "python", "-u", "a.py"]
    words = [Word(text=text, source=f"args[{i + 1}]") for i, text in enumerate(texts)]

    split = slurm_words(words)

    assert {name: word.text for name, word in split.options.items()} == {
        "nodes": "2",
        "ntasks": "8",
        "gpus-per-task": "1",
        "exclusive": "",
    }
    assert split.options["ntasks"].source == "args[2] --ntasks"
    assert [word.text for word in split.rest] == ["python", "-u", "a.py"]


def test_a_beginning_of_a_long_name_is_enough() -> None:
    words = [Word(text="--gpus-per-n=4", source="args[1]")]

    assert slurm_words(words).options["gpus-per-node"].text == "4"


# ---------------------------------------------------------------- GPUs
# Expected by hand from the options' definitions in sbatch.1.


@pytest.mark.parametrize(
    ("lines", "devices", "per_node"),
    [
        (["--gpus=8 --nodes=2"], 8, 4),
        (["-G 4 -N1"], 4, 4),
        (["--gpus-per-node=4", "--nodes=2"], 8, 4),
        (["--gpus-per-node=4"], 4, 4),
        (["--gres=gpu:2", "-N 3-3"], 6, 2),
        (["--gres=gres:gpu:a100-sxm4-80gb:2"], 2, 2),
        (["--gres=gres/gpu:h100=2,nvme:1"], 2, 2),
        (["--gres=gpu"], 1, 1),
        (["--gres=gpu:h100"], 1, 1),
        (["--gres=gpu:4(S:0-1)"], 4, 4),
        (["--gpus-per-task=1 --ntasks=8 --nodes=2"], 8, 4),
        (["--gpus-per-task=2 --ntasks-per-node=4 --nodes=2"], 16, 8),
        (["--gpus=16 --gpus-per-node=8"], 16, 8),
        (["--gpus-per-node=4 --ntasks=8 --ntasks-per-node=4"], 8, 4),
    ],
)
def test_gpus_are_counted(lines: list[str], devices: int, per_node: int) -> None:
    found = hardware(*lines)

    assert (found["devices"], found["devices_per_node"]) == (devices, per_node)


@pytest.mark.parametrize(
    "lines",
    [
        ["--gpus-per-node=4 --nodes=2-4"],
        ["--gpus-per-node=4 --nodes=1,2,4"],
        ["--gpus-per-node=4 --ntasks=8"],
        ["--gpus-per-task=1"],
        ["--gpus-per-socket=2"],
    ],
)
def test_what_slurm_decides_is_unknown(lines: list[str]) -> None:
    assert "hardware.devices" in unknown(*lines)


@pytest.mark.parametrize(
    ("lines", "accelerator"),
    [
        (["--gres=gpu:a100:4"], "a100"),
        (["--gpus=h100:2"], "h100"),
        (["--gres=gpu:a100_1g.5gb:1"], "a100_1g.5gb"),
        (["--gres=gpu:nvidia_a100-sxm4-80gb:1"], "nvidia_a100-sxm4-80gb"),
        (["--gres=gpu:2 --constraint=h100"], "h100"),
        (["--gres=gpu:a100:2 --constraint=a100-40gb"], "a100-40gb"),
    ],
)
def test_the_type_that_is_asked_for_is_the_card(lines: list[str], accelerator: str) -> None:
    assert hardware(*lines)["accelerator"] == accelerator


@pytest.mark.parametrize(
    "lines",
    [
        ["--gres=gpu:4"],
        ["--gpus=2 --partition=gpu"],
        ["--gres=gpu:volta:2"],
        ["--gres=gpu:2 --constraint=[a100|h100]"],
        ["--gres=gpu:2 --constraint=infiniband"],
        ["--gpus=a100:2,h100:2"],
    ],
)
def test_without_a_type_the_site_decides(lines: list[str]) -> None:
    assert "accelerator" not in hardware(*lines)
    assert "hardware.accelerator" in unknown(*lines)


@pytest.mark.parametrize("gres", ["shard:2", "mps:50"])
def test_a_share_of_a_card_is_warned_of(gres: str) -> None:
    parsed, _ = asked(f"--gres={gres}")

    assert [warning.code for warning in parsed.warnings] == ["shared_device"]


def test_variables_are_not_expanded_in_sbatch_lines() -> None:
    parsed, _ = asked("--nodes=$N --gpus-per-node=2")

    assert [problem.rule for problem in parsed.problems] == ["not_a_value"]


# ---------------------------------------------------------------- what Slurm sets


def test_variables_hold_what_the_manual_says() -> None:
    _, variables = asked("--nodes=2 --ntasks-per-node=4 --gpus-per-node=a100:4 -c 8 -p gpu -J x")

    assert variables == {
        "SLURM_NNODES": "2",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NTASKS": "8",
        "SLURM_NPROCS": "8",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_GPUS_PER_NODE": "a100:4",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_CPUS_PER_TASK": "8",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_NAME": "x",
    }


def test_what_is_not_asked_for_is_not_set() -> None:
    _, variables = asked("--nodes=2-4 --time=1:00:00")

    assert variables == {}


# ---------------------------------------------------------------- scripts


def parsed(script: str, **env: str) -> ParsedLaunch:
    return read_launch(Launch(script=script, env=env))


def test_windows_line_ends_are_a_problem() -> None:
    rules = [problem.rule for problem in parsed("#!/bin/bash\r\npython a.py\r\n").problems]

    assert "dos_line_ends" in rules


def test_a_script_of_another_language_gives_its_machine_only() -> None:
    launch = parsed("#!/usr/bin/env python3\n#SBATCH --gpus=h100:2 -N1\nprint('it')\nx = (\n")

    assert launch.job["hardware"]["devices"] == 2
    assert "not_a_shell_script" in [warning.code for warning in launch.warnings]


@pytest.mark.parametrize(
    ("line", "stack"),
    [
        ("pip install -U transformers==4.46.3 'torch==2.4'", "transformers 4.46.3 / torch 2.4"),
        ("pip3 install 'trl[peft]==0.12.1'", "trl 0.12.1"),
        ("conda install -y pytorch=2.3.1", "torch 2.3.1"),
        ("module load cuda/12.1 PyTorch/2.1.2-foss-2023a-CUDA-12.1.1", "torch 2.1.2"),
        ("singularity exec --nv /c/pytorch_2.4.sif python run_clm.py", "torch 2.4"),
        ("docker run --gpus all pytorch/pytorch:2.4.0-cuda12.1 python run_clm.py", "torch 2.4.0"),
        ("docker run nvcr.io/nvidia/pytorch:24.05-py3 python run_clm.py", None),
        ("pip install 'transformers>=4.40' accelerate", None),
        ("module load cuda/12.1", None),
    ],
)
def test_exact_versions_in_a_script_are_the_stack(line: str, stack: str | None) -> None:
    software = parsed(f"#!/bin/bash\n{line}\npython run_clm.py --bf16\n").job.get("software", {})

    assert software.get("stack") == stack


def test_an_annotation_wins_over_a_variable() -> None:
    script = "#!/bin/bash\n#VRAMGATE micro-batch-size=2\npython run_clm.py --bf16\n"

    launch = read_launch(Launch(script=script, env={"VRAMGATE_MICRO_BATCH_SIZE": "4"}))

    assert launch.job["micro_batch_size"] == 2


def test_variables_of_export_are_seen() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --export=ALL,BATCH=3\n"
        "python run_clm.py --per_device_train_batch_size $BATCH\n"
    )

    assert parsed(script).job["micro_batch_size"] == 3


# ---------------------------------------------------------------- a comment's words

TRAIN = (
    "python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 1 --block_size 64"
)


def test_a_comment_carries_words_of_the_site() -> None:
    comment = """#SBATCH --comment='vramgate:{"micro-batch-size": 2, "seq-len": 128}'"""
    read = read_launch(Launch(script=f"#!/bin/bash\n{comment}\n{TRAIN}\n"))
    assert (read.job["micro_batch_size"], read.job["sequence_length"]) == (2, 128)
    assert (
        read.provenance["micro_batch_size"].source == "line 2, #SBATCH --comment micro-batch-size"
    )


def test_a_comment_carries_a_whole_spec_which_wins_over_all() -> None:
    comment = """#SBATCH --comment='vramgate:{"job": {"model": {"name": "gpt2"}, "micro_batch_size": 2}}'"""
    line = "#VRAMGATE micro-batch-size=4"
    read = read_launch(Launch(script=f"#!/bin/bash\n{comment}\n{line}\n{TRAIN}\n"))
    assert read.job["micro_batch_size"] == 2


def test_a_comment_on_the_command_line_counts_too() -> None:
    words = """--comment 'vramgate:{"micro-batch-size": 2}'"""
    read = read_launch(Launch(command=f"srun {words} {TRAIN}"))
    assert read.job["micro_batch_size"] == 2


@pytest.mark.parametrize("comment", ["my run", "vramgate:{broken", "vramgate:[1]", "vramgate:"])
def test_other_comments_change_nothing(comment: str) -> None:
    read = read_launch(Launch(script=f"#!/bin/bash\n#SBATCH --comment='{comment}'\n{TRAIN}\n"))
    assert read.job["micro_batch_size"] == 1
    assert not read.problems


def test_devices_said_by_the_site_count_in_the_batch() -> None:
    # 32 rows over 8 devices of 2 rows each are 2 micro-batches.
    line = (
        "python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 2"
        " --seq-length 128 --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 32"
    )
    read = read_launch(Launch(script=f"#!/bin/bash\n#VRAMGATE devices=8\n{line}\n"))
    assert read.job["hardware"]["devices"] == 8
    assert read.job["gradient_accumulation_steps"] == 2
