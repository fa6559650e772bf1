"""Files that ``vramgate check`` is given in tests, each with what becomes of it."""

import json
from pathlib import Path

TRAIN = (
    "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16"
    " --torch_dtype bfloat16 --block_size 4096 --per_device_train_batch_size 1"
)
DENIED = f"#!/bin/bash\n#SBATCH --gres=gpu:a100:8\n\n# as it was last week\n{TRAIN}\n"
"""Each card has to hold all of a model of 8.03 billion parameters: nothing is shared under DDP.

Weights, gradients and the two states of AdamW take 8 bytes a parameter in bf16, 59.8 GiB; logits of
4,096 tokens and 128,256 words 1.96 GiB in fp32, as much again for their gradient, and half of that in
bf16; activations that nothing recomputes at least 34 bytes a token, hidden value (4,096) and layer (32),
17 GiB (Korthikanti et al. 2022, equation 1, without its attention scores): 81.7 GiB of 80.
"""
DENIED_LINE = 5
ALLOWED = {
    "model": {"name": "Qwen/Qwen2.5-0.5B"},
    "micro_batch_size": 1,
    "sequence_length": 512,
    "hardware": {"accelerator": "h100-sxm5-80gb"},
}
"""Half a billion parameters take 16 bytes each at most, 8 GiB of 80."""
WARNED = {name: value for name, value in ALLOWED.items() if name != "hardware"}
"""Nobody says which card it gets."""
INVALID = "#!/bin/bash\nexport A=1\n" + TRAIN.replace("4096", "many") + "\n"
INVALID_LINE = 3


def write_files(folder: Path) -> dict[str, Path]:
    """Write a file of each kind; return them by the word that each is answered with."""
    texts = {
        "allow": ("small.json", json.dumps(ALLOWED)),
        "warn": ("nowhere.yaml", json.dumps(WARNED)),
        "deny": ("train.sbatch", DENIED),
        "invalid": ("broken.sh", INVALID),
    }
    for name, text in texts.values():
        (folder / name).write_text(text)
    return {word: folder / name for word, (name, _) in texts.items()}
