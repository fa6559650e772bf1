"""Published training scripts by their file's name: the task, and what they do where nobody says it.

Sources: huggingface/transformers ``examples/pytorch`` (4.57 and main); artidoro/qlora ``qlora.py``
(00e5ad2a); lm-sys/FastChat ``fastchat/train/train_lora.py`` (02d4581b).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vramgate.costmodel.job import CheckpointMode, MethodKind, OptimizerName, Packing, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a published script is for, and its own defaults by field of the job."""

    framework: str = "transformers"
    task: Task | None = None
    defaults: Mapping[str, object] = field(default_factory=dict)
    length: str = ""
    """Where rows are as long as something else allows: a clause."""
    adapts: MethodKind | None = None
    """What trains, whatever its options say."""


# transformers' *_no_trainer.py: a loop of their own under accelerate, 8 rows where nobody says.
_OWN_LOOP = Script(framework="accelerate", defaults={"micro_batch_size": 8})
_TOKENIZERS = "rows are as long as the tokenizer allows"
_CLASSIFIER = Script(task=Task.CLASSIFICATION, defaults={"sequence_length": 128})

# run_clm.py: block_size, else the tokenizer's longest, at most 1024; texts are joined and cut.
_CAUSAL = Script(task=Task.PRETRAIN, defaults={"sequence_length": 1024, "packing": Packing.PACKED})

SCRIPTS: Mapping[str, Script] = {
    "run_clm": _CAUSAL,
    "run_fim": _CAUSAL,
    "run_clm_no_trainer": Script(
        framework="accelerate",
        task=Task.PRETRAIN,
        defaults={**_CAUSAL.defaults, "micro_batch_size": 8},
    ),
    "run_glue_no_trainer": Script(
        framework="accelerate",
        task=Task.CLASSIFICATION,
        defaults={"micro_batch_size": 8, "sequence_length": 128},
    ),
    "run_mlm": Script(task=Task.PRETRAIN, length=f"{_TOKENIZERS}, at most 1024"),
    "run_plm": Script(task=Task.PRETRAIN, defaults={"sequence_length": 512}),
    "run_glue": _CLASSIFIER,
    "run_xnli": _CLASSIFIER,
    "run_classification": _CLASSIFIER,
    "run_ner": Script(task=Task.CLASSIFICATION, length=_TOKENIZERS),
    "run_swag": Script(task=Task.CLASSIFICATION, length=f"{_TOKENIZERS}, at most 1024"),
    # A head of two outputs a token: no logits over the vocabulary.
    "run_qa": Script(task=Task.CLASSIFICATION, defaults={"sequence_length": 384}),
    "run_translation": Script(task=Task.SFT, defaults={"sequence_length": 1024}),
    "run_summarization": Script(task=Task.SFT, defaults={"sequence_length": 1024}),
    "qlora": Script(
        task=Task.SFT,
        adapts=MethodKind.QLORA,
        defaults={
            "method.rank": 64,
            "method.dropout": 0.0,
            "method.target_modules": "all-linear",
            "method.quantization": "nf4",
            "method.double_quant": True,
            "method.prepare_for_kbit_training": True,
            "optimizer.name": OptimizerName.PAGED_ADAMW,
            "micro_batch_size": 1,
            "gradient_accumulation_steps": 16,
            "activation_checkpointing.mode": CheckpointMode.FULL,
            "sequence_length": 1024 + 256,
        },
    ),
    "train_lora": Script(task=Task.SFT, adapts=MethodKind.LORA),
}


def script_of(program: str) -> Script | None:
    """Return what is known of a script or module: ``examples/pytorch/language-modeling/run_clm.py``.

    >>> script_of("transformers/examples/pytorch/language-modeling/run_clm.py").task.value
    'pretrain'
    """
    name = program.rpartition("/")[2].removesuffix(".py").rpartition(".")[2]
    known = SCRIPTS.get(name)
    return _OWN_LOOP if known is None and name.endswith("_no_trainer") else known
