"""Runtimes that Kubeflow Trainer comes with: what a TrainJob gets of them without saying it.

Source: kubeflow/trainer 8c0f5059 ``manifests/base/runtimes``, ``pkg/runtime/framework/plugins/torch``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vramgate.launch.manifests.gpu_asks import NVIDIA_GPU

TORCHTUNE = ("tune", "run")
"""The command under which the operator picks recipe and config by itself."""
LORA_ARGUMENT = "model.lora_attn_modules"
_QUANTIZE_ARGUMENT = "model.quantize_base"
_DORA_ARGUMENT = "model.use_dora"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedRuntime:
    """What a runtime says of the training container."""

    is_torch: bool
    """Whether the operator sets torchrun's variables."""
    command: Sequence[str] = ()
    limits: Mapping[str, int] | None = None
    model: str = ""


def _torchtune(name: str, model: str, *tokenizer: str) -> PackagedRuntime:
    return PackagedRuntime(
        is_torch=True,
        command=(
            *TORCHTUNE,
            "--rdzv_endpoint=localhost:29500",
            "full_finetune_distributed",
            "--config",
            f"{name}_full",
            "dataset=torchtune.datasets.instruct_dataset",
            "dataset.source=parquet",
            "dataset.data_dir=/workspace/dataset/data",
            "output_dir=/workspace/output",
            *tokenizer,
            "checkpointer.checkpoint_dir=/workspace/model",
        ),
        limits={NVIDIA_GPU: 2},
        model=model,
    )


_LLAMA_TOKENIZER = "tokenizer.path=/workspace/model/original/tokenizer.model"
_RUNTIMES: Mapping[str, PackagedRuntime] = {
    "torch-distributed": PackagedRuntime(is_torch=True),
    "torch-distributed-with-cache": PackagedRuntime(is_torch=True),
    "deepspeed-distributed": PackagedRuntime(is_torch=False),
    "torchtune-llama3.2-1b": _torchtune(
        "llama3_2/1B", "hf://meta-llama/Llama-3.2-1B-Instruct", _LLAMA_TOKENIZER
    ),
    "torchtune-llama3.2-3b": _torchtune(
        "llama3_2/3B", "hf://meta-llama/Llama-3.2-3B-Instruct", _LLAMA_TOKENIZER
    ),
    "torchtune-qwen2.5-1.5b": _torchtune(
        "qwen2_5/1.5B",
        "hf://Qwen/Qwen2.5-1.5B-Instruct",
        "tokenizer.path=/workspace/model/vocab.json",
        "tokenizer.merges_file=/workspace/model/merges.txt",
    ),
}


def packaged_runtime(name: str) -> PackagedRuntime | None:
    """Return the runtime of a name, None where Trainer comes with none of it."""
    return _RUNTIMES.get(name)


def torchtune_words(
    runtime: str, command: Sequence[str], arguments: Sequence[str], *, nodes: int, is_one: bool
) -> tuple[str, ...]:
    """Return what the operator makes of ``tune run``: a recipe and a config by nodes, devices, arguments.

    ``command`` is the runtime's, whose paths are kept; ``is_one``: one process, or one device.
    Source: ``torchtune.go``, ``getRecipeAndConfig`` and ``extractOverridesFromRuntime``.
    """
    is_qlora = _is_on(arguments, _QUANTIZE_ARGUMENT) and not _is_on(arguments, _DORA_ARGUMENT)
    is_lora = any(LORA_ARGUMENT in one for one in arguments)
    suffix = "_full_multinode"
    recipe = "full_finetune_distributed"
    if nodes == 1:
        kind = "qlora" if is_qlora else "lora" if is_lora else "full"
        where = "single_device" if is_one else "distributed"
        recipe = f"{'full' if kind == 'full' else 'lora'}_finetune_{where}"
        suffix = f"_{kind}_single_device" if is_one else f"_{kind}"
    kept = [one for one in command if one.partition("=")[0] in _KEPT]
    return (*TORCHTUNE, recipe, "--config", f"{_model(runtime)}{suffix}", *kept)


_KEPT = frozenset(
    {"output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"}
)


def _is_on(arguments: Sequence[str], key: str) -> bool:
    pairs = [one.partition("=") for one in arguments]
    return any(key in name and value.strip().lower() == "true" for name, _, value in pairs)


def _model(runtime: str) -> str:
    """Return torchtune's name of a runtime's model: ``torchtune-llama3.2-1b`` is ``llama3_2/1B``."""
    parts = runtime.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""  # noqa: PLR2004
