"""The dtype that ``auto`` loads: what the checkpoint is stored in."""

import pytest

from tests.jobs.describing import resolved
from vramgate.costmodel.job import Dtype
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

TRANSFORMERS_5 = {"framework": "transformers", "stack": "transformers 5.24"}
CONFIG = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "vocab_size": 1000,
}


@pytest.mark.parametrize(
    ("model", "dtype"),
    [
        # Sizes of the published files: 548 MB for 124 million parameters, 16 GB for 8 billion.
        ({"name": "gpt2"}, Dtype.FP32),
        ({"name": "meta-llama/Llama-3.1-8B"}, Dtype.BF16),
        ({"config": {**CONFIG, "torch_dtype": "float32"}}, Dtype.FP32),
        ({"config": {**CONFIG, "dtype": "float16"}}, Dtype.FP16),
        ({"config": CONFIG}, Dtype.BF16),
    ],
)
def test_transformers_5_loads_what_is_stored(model: dict[str, object], dtype: Dtype) -> None:
    job = resolved(model=model, sequence_length=128, software=TRANSFORMERS_5).job
    assert job.precision.weights is dtype


def test_before_5_weights_are_fp32() -> None:
    software = {"framework": "transformers", "stack": "transformers 4.51"}
    assert resolved(sequence_length=128, software=software).job.precision.weights is Dtype.FP32


@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ("--model_name_or_path gpt2 --fp16", "fp32"),
        ("--model_name_or_path gpt2 --bf16", "fp32"),
        ("--model_name_or_path meta-llama/Llama-3.1-8B --bf16", "bf16"),
        # GradScaler cannot unscale gradients of bf16, so whoever trains in fp16 loads fp32.
        ("--model_name_or_path meta-llama/Llama-3.1-8B --fp16", "fp32"),
        ("--model_name_or_path meta-llama/Llama-3.1-8B --fp16 --use_peft", "fp16"),
    ],
)
def test_a_flag_over_unsaid_weights_is_a_job_that_runs(line: str, weights: str) -> None:
    launch = Launch(command=f"python run_clm.py {line} --block_size 512")
    job = read_launch(launch).job
    assert job["precision"]["weights"] == weights
    resolved(**job)
