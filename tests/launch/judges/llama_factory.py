"""Judges how LLaMA-Factory's own ``get_train_args`` reads the launches that our reader of it reads.

Reads one JSON object a line on stdin, ``{"name": …, "launch": {…}}``, and prints one a line: what
``HfArgumentParser`` and the checks after it make of the YAML, by fields of the job; ``error`` where they
refuse it. There is no device here: the card is said to have bf16, and packages that are asked for by an
option (GaLore, Unsloth, Liger) are taken as installed. DeepSpeed and FSDP are left out, for they need
processes.
"""

# requires: llamafactory==0.9.5 torch==2.13.0

import importlib
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

_NEEDED = {
    "dataset": "identity",
    "template": "default",
    "do_train": True,
    "use_cpu": True,
    "report_to": "none",
    "output_dir": "",
}
_LEFT_OUT = ("deepspeed", "fsdp", "fsdp_config", "fsdp_transformer_layer_cls_to_wrap")
_TASKS = {"sft": "sft", "pt": "pretrain", "rm": "reward", "dpo": "dpo", "kto": "kto"}
_ATTENTION = {"disabled": "eager", "sdpa": "sdpa", "fa2": "flash_attention_2"}
_OPTIMIZERS = {
    "adamw_torch": ("adamw", "foreach"),
    "adamw_torch_fused": ("adamw", "fused"),
    "adamw_8bit": ("adamw_8bit", "fused"),
    "paged_adamw_8bit": ("paged_adamw_8bit", "fused"),
}
_OWN_OPTIMIZERS = ("use_galore", "use_apollo", "use_badam", "use_adam_mini", "use_muon")
_MEGATRON = ("USE_MCA", "USE_V1")


def main() -> None:
    """Judge every line."""
    here = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != here]  # judges have their frameworks' names
    unused: dict[str, Any] = dict.fromkeys(("torchvision", "torchaudio"))
    sys.modules.update(unused)  # they are built for CUDA
    out, sys.stdout = sys.stdout, sys.stderr
    parser = importlib.import_module("llamafactory.hparams.parser")
    with (
        mock.patch.object(parser, "is_torch_bf16_gpu_available", return_value=True),
        mock.patch.object(parser, "check_version"),
    ):
        for line in sys.stdin:
            item = json.loads(line)
            answer = judged(item["launch"], parser)
            out.write(json.dumps({"name": item["name"], **answer}) + "\n")
            out.flush()


def judged(launch: dict[str, Any], parser: Any) -> dict[str, Any]:  # noqa: ANN401 a module
    """Return the fields of one launch, or why there are none."""
    if "transformers 4" in launch.get("env", {}).get("VRAMGATE_STACK", ""):
        return {"skipped": "another version"}
    said = _said(launch)
    if isinstance(said, str):
        return {"skipped": said}
    sharded = bool([name for name in _LEFT_OUT if said.pop(name, None)])
    with tempfile.TemporaryDirectory() as folder:
        args = {**_NEEDED, "output_dir": folder, **{k: v for k, v in said.items() if v is not None}}
        args["output_dir"] = folder
        try:
            read = parser.get_train_args(args)
        except (Exception, SystemExit) as error:  # noqa: BLE001 whatever it is refused with
            return {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    # data_args.py takes one token off where packing is said; the collator pads it back.
    taken = int(bool(said.get("packing") or said.get("neat_packing")))
    fields = {"sequence_length": read[1].cutoff_len + taken} | _fields(*read[:4])
    return {"fields": fields | ({} if sharded else _formats(*read[:4]))}


def _said(launch: dict[str, Any]) -> dict[str, Any] | str:
    """Return the settings of a launch, the words of the command over the file's."""
    config = launch.get("config")
    if config is not None:
        return dict(yaml.safe_load(config) if isinstance(config, str) else config)
    words = shlex.split(launch["command"])
    if any(word.startswith(name) for word in words for name in _MEGATRON):
        return "another engine"
    path = next(
        (word for word in words if word.endswith((".yaml", ".yml")) and "=" not in word), ""
    )
    if "launch" in words:
        path = words[-1]
    text = launch.get("files", {}).get(path)
    if text is None or "$" in launch["command"]:
        return _flags(words)
    said = dict(yaml.safe_load(text))
    for word in words[words.index(path) + 1 :]:
        key, _, value = word.partition("=")
        said[key] = yaml.safe_load(value)
    return said


def _flags(words: list[str]) -> dict[str, Any] | str:
    """Return the flags of the script of before 0.7."""
    script = next(
        (index for index, word in enumerate(words) if word.endswith("train_bash.py")), None
    )
    if script is None:
        return "the file is not there, or a variable has no value"
    said: dict[str, Any] = {}
    name = ""
    for word in words[script + 1 :]:
        if word.startswith("--"):
            name = word.removeprefix("--")
            said[name] = True
        else:
            said[name] = yaml.safe_load(word)
    said.pop("overwrite_cache", None)
    return said


def _fields(
    model: Any,  # noqa: ANN401 LLaMA-Factory's
    data: Any,  # noqa: ANN401
    training: Any,  # noqa: ANN401
    tuning: Any,  # noqa: ANN401
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model.name": model.model_name_or_path,
        "micro_batch_size": training.per_device_train_batch_size,
        "gradient_accumulation_steps": training.gradient_accumulation_steps,
        "compile": training.torch_compile,
        "activation_checkpointing.mode": _checkpointing(model, training),
    }
    if data.packing:
        fields["packing"] = "packed"
    if tuning.pref_loss in {"orpo", "simpo"}:
        fields["task"] = tuning.pref_loss
    elif tuning.stage in _TASKS:
        fields["task"] = _TASKS[tuning.stage]
    if fields["activation_checkpointing.mode"] == "full":
        fields["activation_checkpointing.reentrant"] = model.use_reentrant_gc
    attention = getattr(model.flash_attn, "value", model.flash_attn)
    if attention in _ATTENTION:
        fields["attention"] = _ATTENTION[attention]
    if not any(getattr(tuning, name) for name in _OWN_OPTIMIZERS):
        fields |= _optimizer(training.optim)
    return fields | _method(model, tuning)


def _optimizer(name: Any) -> dict[str, Any]:  # noqa: ANN401 transformers' enumeration
    known = _OPTIMIZERS.get(getattr(name, "value", name))
    return (
        {}
        if known is None
        else dict(zip(("optimizer.name", "optimizer.implementation"), known, strict=True))
    )


def _checkpointing(model: Any, training: Any) -> str:  # noqa: ANN401 LLaMA-Factory's
    on = training.gradient_checkpointing or not model.disable_gradient_checkpointing
    return "full" if on else "none"


def _method(model: Any, tuning: Any) -> dict[str, Any]:  # noqa: ANN401 LLaMA-Factory's
    kind = tuning.finetuning_type
    if kind == "oft":
        return {}
    if kind == "freeze":
        layers = tuning.freeze_trainable_layers
        return {"method.kind": kind} | ({"method.trainable_layers": layers} if layers > 0 else {})
    if kind == "full":
        return {"method.kind": kind}
    fields: dict[str, Any] = {} if "GPTQ" in model.model_name_or_path else {"method.kind": "lora"}
    if model.quantization_bit is not None:
        four = model.quantization_bit == 4
        fields["method.kind"] = "qlora"
        fields["method.quantization"] = model.quantization_type if four else "int8"
        if four:
            fields["method.double_quant"] = model.double_quantization
    if model.adapter_name_or_path is None:
        fields |= {
            "method.rank": tuning.lora_rank,
            "method.dropout": tuning.lora_dropout,
            "method.target_modules": (
                "all-linear" if tuning.lora_target == ["all"] else tuning.lora_target
            ),
        }
    fields["method.dora"] = tuning.use_dora
    fields["method.modules_to_save"] = tuning.additional_target or []
    return fields


def _formats(
    model: Any,  # noqa: ANN401 LLaMA-Factory's
    _data: Any,  # noqa: ANN401
    training: Any,  # noqa: ANN401
    tuning: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Return the formats that follow from the arguments alone (``model/adapter.py``)."""
    autocast = bool(training.bf16 or training.fp16)
    fields: dict[str, Any] = {"precision.autocast": autocast}
    if model.compute_dtype is not None:
        half = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}[str(model.compute_dtype)]
        fields["precision.compute"] = half
    raised = tuning.finetuning_type in {"full", "freeze"} and not (
        tuning.pure_bf16 or tuning.use_badam
    )
    if raised:
        fields["precision.weights"] = "fp32"
    return fields


if __name__ == "__main__":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    main()
