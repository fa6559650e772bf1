"""Launches on the command line: read with the files they name, written back with their job."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Run
from vramgate.launch.launch import Launch
from vramgate.workflows.read_launch import launched_job

TRAIN = (
    "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16"
    " --torch_dtype bfloat16 --block_size 4096 --per_device_train_batch_size 1"
    " --deepspeed configs/ds.json"
)
SCRIPT = f"""#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:a100:8
# keep this comment
{TRAIN}
"""
MANIFEST = f"""\
# A comment that stays.
apiVersion: batch/v1
kind: Job
metadata:
  name: sft   # and this one
spec:
  template:
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
      containers:
        - name: train
          image: example/trainer
          command: ["bash", "-c", "{TRAIN}"]
          resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a script, a manifest, and the file that both name."""
    (tmp_path / "configs").mkdir()
    ds = {"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}
    (tmp_path / "configs" / "ds.json").write_text(json.dumps(ds))
    (tmp_path / "train.sh").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(MANIFEST)
    return tmp_path


def test_a_script_is_read_with_the_files_it_names(run: Run, folder: Path) -> None:
    code, out, _ = run("parse", folder / "train.sh")
    job = json.loads(out)
    assert code == 0
    assert job["sharding"]["zero_stage"] == 3
    assert job["hardware"]["devices"] == 8


def test_what_parse_prints_is_what_estimate_takes(run: Run, folder: Path, tmp_path: Path) -> None:
    _, out, _ = run("parse", folder / "train.sh", "--accelerator", "a100-sxm4-80gb")
    (tmp_path / "job.json").write_text(out)
    code, bill, _ = run("estimate", tmp_path / "job.json")
    assert code == 0
    assert "a100-sxm4-80gb" in bill


def test_each_field_is_explained_by_its_place(run: Run, folder: Path) -> None:
    _, out, _ = run("parse", folder / "train.sh", "--explain")
    assert "ds.json: zero_optimization.stage" in out


def test_a_file_that_is_not_there_is_named(run: Run, folder: Path) -> None:
    (folder / "configs" / "ds.json").unlink()
    code, out, err = run("parse", folder / "train.sh")
    assert code == 2
    assert "configs/ds.json is not among the files" in err
    assert "zero_stage" not in json.loads(out).get("sharding", {})


def test_a_command_line_needs_no_file(run: Run) -> None:
    line = TRAIN.partition(" --deepspeed")[0]
    code, out, _ = run("parse", "--command", line.replace("bf16", "bf16 --seed $SEED"))
    assert (code, json.loads(out)["micro_batch_size"]) == (0, 1)


def test_variables_are_given_by_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    line = TRAIN.partition(" --deepspeed")[0].replace("batch_size 1", "batch_size $B")
    assert run("parse", "--command", line)[0] == 2
    code, out, _ = run("parse", "--command", line, "--env", "B=4")
    assert (code, json.loads(out)["micro_batch_size"]) == (0, 4)
    monkeypatch.setenv("B", "2")
    assert json.loads(run("parse", "--command", line, "--env", "B")[1])["micro_batch_size"] == 2
    monkeypatch.delenv("B")
    assert "B is not set here" in run("parse", "--command", line, "--env", "B")[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Give a file, or a line with --command"),
        (("nothing-here.sh",), "cannot be read"),
        (("--command", "echo 'open"), "line 1"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    run: Run, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run("parse", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_a_configuration_needs_its_framework(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("base_model: NousResearch/Llama-3.2-1B\nsequence_len: 2048\n")
    assert "--framework" in run("parse", file)[2]
    code, out, _ = run("parse", file, "--framework", "axolotl")
    assert (code, json.loads(out)["sequence_length"]) == (0, 2048)


def test_a_manifest_is_annotated_and_keeps_its_comments(run: Run, folder: Path) -> None:
    code, out, _ = run("annotate", folder / "job.yaml")
    spec = json.loads(yaml.safe_load(out)["metadata"]["annotations"]["vramgate.dev/spec"])
    assert code == 0
    assert spec["job"]["sharding"]["zero_stage"] == 3
    assert "# A comment that stays." in out
    assert "# and this one" in out
    without = [line for line in out.splitlines() if "vramgate.dev" not in line]
    assert [line for line in without if "annotations:" not in line] == MANIFEST.splitlines()


@pytest.mark.parametrize(("name", "field"), [("job.yaml", "manifest"), ("train.sh", "script")])
def test_what_is_annotated_says_its_job_without_its_files(
    run: Run, folder: Path, name: str, field: str
) -> None:
    assert run("annotate", folder / name, "--in-place", "--accelerator", "h200")[0] == 0
    text = (folder / name).read_text()
    launch = Launch(manifest=text) if field == "manifest" else Launch(script=text)
    launched = launched_job(launch)
    assert launched.launch.unknown == ()
    assert launched.launch.job["sharding"]["zero_stage"] == 3
    assert launched.launch.job["hardware"]["accelerator"] == "h200"

    again = run("annotate", folder / name, "--accelerator", "h200")[1]
    assert again.count("spec") == text.count("spec")


def test_nothing_is_written_where_something_is_unknown(run: Run, folder: Path) -> None:
    (folder / "configs" / "ds.json").unlink()
    before = (folder / "job.yaml").read_text()
    code, out, err = run("annotate", folder / "job.yaml", "--in-place")
    assert (code, out) == (2, "")
    assert "configs/ds.json" in err
    assert (folder / "job.yaml").read_text() == before
