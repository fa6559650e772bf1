"""Counts of live models against arithmetic by hand."""

import io
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vramgate.reporter import DtypeCount, count_parameters, print_parameters
from vramgate.reporter.__main__ import main

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")


class Tied(torch.nn.Module):  # type: ignore[misc]
    """An embedding of 10 × 4 whose head shares it, and a linear layer of 4 × 3 + 3."""

    def __init__(self, **where: Any) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(10, 4, **where)
        self.middle = torch.nn.Linear(4, 3, **where)
        self.head = torch.nn.Linear(4, 10, bias=False, **where)


def test_plain_parameters() -> None:
    count = count_parameters(torch.nn.Linear(5, 7))
    assert (count.parameters, count.trainable_parameters) == (42, 42)
    assert (count.bytes, count.trainable_bytes) == (168, 168)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_tied_weight_counts_once_however_it_is_tied(device: str) -> None:
    shared = Tied(device=device)
    shared.head.weight = shared.embed.weight
    same_memory = Tied(device=device)
    same_memory.head.weight = torch.nn.Parameter(same_memory.embed.weight.detach())
    for model in (shared, same_memory):
        assert count_parameters(model).parameters == 40 + 15
    assert count_parameters(Tied(device=device)).parameters == 40 + 15 + 40


def test_frozen_parts_and_number_formats_are_told_apart() -> None:
    model = Tied().to(torch.bfloat16)
    model.requires_grad_(requires_grad=False)
    model.adapter = torch.nn.Linear(4, 2, bias=False)
    count = count_parameters(model)
    assert (count.parameters, count.trainable_parameters) == (95 + 8, 8)
    assert (count.bytes, count.trainable_bytes) == (190 + 32, 32)
    assert count.by_dtype == {
        "bfloat16": DtypeCount(parameters=95, trainable_parameters=0, bytes=190),
        "float32": DtypeCount(parameters=8, trainable_parameters=8, bytes=32),
    }


def test_views_of_one_buffer_all_count() -> None:
    buffer = torch.zeros(12)
    model = torch.nn.Module()
    model.first = torch.nn.Parameter(buffer[:4])
    model.second = torch.nn.Parameter(buffer[4:])
    assert count_parameters(model).parameters == 12


def test_a_partition_of_zero_3_counts_in_full() -> None:
    # As deepspeed.zero.Init leaves a parameter: no elements, and what it stands for beside it.
    model = torch.nn.Linear(3, 5, bias=False, dtype=torch.bfloat16)
    model.weight.data = torch.empty(0, dtype=torch.bfloat16)
    model.weight.ds_numel = 15
    count = count_parameters(model)
    assert (count.parameters, count.bytes) == (15, 30)


def test_four_bit_weights_count_by_the_shape_they_stand_for() -> None:
    # As bitsandbytes packs a 64 × 128 weight: two values in a byte.
    packed = torch.nn.Parameter(torch.zeros(4096, 1, dtype=torch.uint8), requires_grad=False)
    packed.quant_state = SimpleNamespace(shape=torch.Size([64, 128]), quant_type="nf4")
    model = torch.nn.Module()
    model.weight = packed
    count = count_parameters(model)
    assert count.by_dtype == {
        "nf4": DtypeCount(parameters=8192, trainable_parameters=0, bytes=4096)
    }


def test_a_model_of_transformers_counts_as_it_says_itself() -> None:
    transformers: Any = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=1000, tie_word_embeddings=True,
    )  # fmt: skip
    # Embedding; per block: q and o, k and v, three of the MLP, two norms; the last norm.
    block = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
    by_hand = 1000 * 64 + 2 * block + 64
    for device in ("cpu", "meta"):
        with torch.device(device):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        assert count_parameters(model).parameters == by_hand
        assert count_parameters(model).bytes == 2 * by_hand


def test_the_count_can_be_printed() -> None:
    shown = io.StringIO()
    count = print_parameters(torch.nn.Linear(5, 7), shown)
    assert count.parameters == 42
    assert shown.getvalue().splitlines()[0].split() == [
        "parameters", "42", "(168", "bytes,", "0.00", "GiB)"
    ]  # fmt: skip


def test_the_command_counts_without_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers: Any = pytest.importorskip("transformers")
    transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=10, n_positions=4)\
        .save_pretrained(tmp_path)  # fmt: skip
    assert main(["count", str(tmp_path), "--dtype", "bfloat16"]) == 0
    # Embeddings (10 + 4) × 8; attention 8 × 24 + 24, 8 × 8 + 8; MLP 8 × 32 + 32, 32 × 8 + 8;
    # three norms of 16; the head is tied.
    by_hand = 14 * 8 + 216 + 72 + 288 + 264 + 3 * 16
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ["bfloat16", f"{by_hand:,}"]


_SHARDED = """
import sys, torch, torch.distributed as dist
from vramgate.reporter import count_parameters
dist.init_process_group("gloo")
rank = dist.get_rank()

def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))

def shown(name, model):
    count = count_parameters(model)
    if rank == 0:
        print(name, count.parameters, count.trainable_parameters, count.bytes, flush=True)

from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
for original in (True, False):
    one = model()
    one[1].requires_grad_(original)
    sharded = torch.nn.Sequential(*[
        FullyShardedDataParallel(part, use_orig_params=original, device_id=torch.device("cpu"))
        for part in one
    ])
    shown(f"fsdp1-{original}", sharded)
two = model()
for part in two:
    fully_shard(part)
fully_shard(two)
shown("fsdp2", two)
dist.destroy_process_group()
"""


def test_sharded_models_count_in_full_on_every_rank(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = tmp_path / "sharded.py"
    script.write_text(_SHARDED)
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**common, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    shown = [rank.communicate(timeout=100) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], shown[0][1][-2000:]
    # 5 × 7 + 7 and 7 × 3 + 3; the second is frozen where the first version keeps no originals.
    assert shown[0][0].splitlines() == [
        "fsdp1-True 66 66 264",
        "fsdp1-False 66 42 264",
        "fsdp2 66 66 264",
    ]
