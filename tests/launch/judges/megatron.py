"""Judges how Megatron-LM's own parser reads the command lines that ``launch/frameworks/megatron.py`` reads.

Reads one JSON object a line on stdin, ``{"name": …, "launch": {…}}``, and prints one a line: what
``parse_args`` and ``validate_args`` make of it, by fields of the job; ``error`` where Megatron
refuses it. Needs a checkout of NVIDIA/Megatron-LM (d98e8a64) in ``MEGATRON_LM``: its training
module is no package.
"""

# requires: torch==2.13.0 triton==3.9.0 numpy==2.4.6 einops==0.8.2 packaging==26.4 pyyaml==6.0.4

import contextlib
import io
import json
import os
import shlex
import sys
import typing
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
import typing_extensions

_PROGRAMS = ("pretrain_gpt.py", "pretrain_hybrid.py", "pretrain_bert.py", "pretrain_t5.py")
_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def main() -> None:
    """Judge every line."""
    checkout, out = os.environ.get("MEGATRON_LM"), sys.stdout
    sys.stdout = sys.stderr  # Megatron logs what it parses
    for line in sys.stdin:
        item = json.loads(line)
        answer = judged(item["launch"], checkout) if checkout else {"skipped": "no MEGATRON_LM"}
        out.write(json.dumps({"name": item["name"], **answer}) + "\n")
        out.flush()


def judged(launch: dict[str, Any], checkout: str) -> dict[str, Any]:
    """Return the fields of one launch, or why there are none."""
    command = launch.get("command")
    if not isinstance(command, (str, list)) or "$" in str(command):
        return {"skipped": "no plain command line"}
    words = shlex.split(command) if isinstance(command, str) else list(command)
    program = next((i for i, word in enumerate(words) if word.endswith(_PROGRAMS)), None)
    if program is None or {"--deepspeed", "--yaml-cfg", "--use-checkpoint-args"} & set(words):
        return {"skipped": "not Megatron-LM's command line alone"}
    if "megatron" in str(launch.get("env", {}).get("VRAMGATE_STACK", "")):
        return {"skipped": "another version"}
    _prepare(checkout)
    try:
        args = parsed(words[program + 1 :], _world(words[:program]), words[program])
    except (Exception, SystemExit) as error:  # noqa: BLE001 whatever Megatron refuses it with
        return {"error": f"{type(error).__name__}: {error}"}
    return {"fields": fields(args, words)}


def _world(launcher: list[str]) -> int:
    """Return the processes that torchrun starts."""

    def number(name: str) -> int:
        return int(launcher[launcher.index(name) + 1]) if name in launcher else 1

    return number("--nproc_per_node") * number("--nnodes")


def _prepare(checkout: str) -> None:
    """Make Megatron importable: its own folder instead of this file's, and no card asked."""
    if checkout not in sys.path:
        own = Path(__file__).parent
        sys.path[:] = [checkout, *(path for path in sys.path if Path(path).resolve() != own)]
        typing.override = typing_extensions.override  # type: ignore[attr-defined]  # Python 3.11
        torch.cuda.get_device_capability = lambda *_: (9, 0)


def parsed(words: list[str], world: int, program: str) -> Namespace:
    """Return the arguments as Megatron completes them, as on one rank of an H100 node."""
    from megatron.training import arguments  # noqa: PLC0415 found in the checkout

    arguments.get_device_arch_version = lambda: 9
    fsdp = {"--use-torch-fsdp2", "--use-megatron-fsdp"} & set(words)
    os.environ |= {"WORLD_SIZE": str(world), "RANK": "0"}
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "8" if fsdp else "1"
    sys.argv = [program, *words]
    default = "GPT2BPETokenizer" if "gpt" in program or "hybrid" in program else None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        args: Namespace = arguments.parse_args()
        arguments.validate_args(args, {"tokenizer_type": default} if default else {})
        args.apply_rope_fusion = False  # needs Transformer Engine, which needs a card
        config = arguments.core_transformer_config_from_args(args)
        args.recompute_granularity = config.recompute_granularity
    _check_batch(args)
    return args


def _check_batch(args: Namespace) -> None:
    """Raise what the micro-batch calculator would."""
    from megatron.core import num_microbatches_calculator as calculator  # noqa: PLC0415

    calculator.ConstantNumMicroBatchesCalculator(
        args.global_batch_size,
        args.micro_batch_size,
        args.data_parallel_size,
        args.decrease_batch_size_if_needed,
        0,
    )


SAID = {
    "parallelism.tensor_parallel_size": "--tensor-model-parallel-size",
    "parallelism.pipeline_parallel_size": "--pipeline-model-parallel-size",
    "parallelism.context_parallel_size": "--context-parallel-size",
    "parallelism.expert_parallel_size": "--expert-model-parallel-size",
    "parallelism.sequence_parallel": "--sequence-parallel",
    "sharding.zero_stage": "--use-distributed-optimizer",
}
"""Fields that are compared where their flag is said: a job whose model is out of sight has no defaults."""

_PARTS = (
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
    "--pipeline-model-parallel-layout",
)


def fields(args: Namespace, words: list[str]) -> dict[str, Any]:
    """Return what means the same in the job."""
    product = args.micro_batch_size * args.data_parallel_size
    shards = args.use_distributed_optimizer or args.use_layer_wise_distributed_optimizer
    found = {
        "parallelism.tensor_parallel_size": args.tensor_model_parallel_size,
        "parallelism.pipeline_parallel_size": args.pipeline_model_parallel_size,
        "parallelism.context_parallel_size": args.context_parallel_size,
        "parallelism.expert_parallel_size": args.expert_model_parallel_size,
        "parallelism.sequence_parallel": args.sequence_parallel,
        "sharding.zero_stage": 1 if shards else 0,
    }
    found = {field: value for field, value in found.items() if SAID[field] in words}
    found |= {
        "micro_batch_size": args.micro_batch_size,
        "sequence_length": args.seq_length,
        "precision.weights": _DTYPES[args.params_dtype],
        "precision.master_weights": bool(args.bf16 or args.fp16),
    }
    if args.step_batch_size_schedule is None:  # else it grows; the job has the largest
        found["gradient_accumulation_steps"] = args.global_batch_size // product
    if set(_PARTS) & set(words):
        parts = args.virtual_pipeline_model_parallel_size or 1
        found["parallelism.virtual_pipeline_stages"] = parts
    if args.use_megatron_fsdp:
        found.pop("sharding.zero_stage", None)
    else:
        raised = args.accumulate_allreduce_grads_in_fp32
        found["precision.gradients"] = "fp32" if raised else _DTYPES[args.params_dtype]
    if args.recompute_granularity == "selective" or args.recompute_method == "uniform":
        found["activation_checkpointing.mode"] = args.recompute_granularity
    return found


if __name__ == "__main__":
    main()
