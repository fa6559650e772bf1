"""Every framework's name for an optimizer becomes the optimizer it is, or is named as unknown."""

from typing import Any

import pytest

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.optimizers import say_momentum, say_optimizer
from vramgate.launch.reading import Found, Misread, Unseen

# transformers 5.24.0 and 4.45.2 training_args.py OptimizerNames; what each handler of
# trainer_optimizer.py builds (4.45: trainer.py get_optimizer_cls_and_kwargs).
TRAINER = {
    "adamw_torch": {"name": "adamw", "implementation": "foreach"},
    "adamw_torch_fused": {"name": "adamw", "implementation": "fused"},
    "adamw_torch_xla": {"name": "adamw", "implementation": "fused"},
    "adamw_torch_npu_fused": {"name": "adamw", "implementation": "fused"},
    "adamw_apex_fused": {"name": "adamw", "implementation": "fused"},
    "adamw_hf": {"name": "adamw", "implementation": "for_loop"},
    "adamw_anyprecision": {"name": "adamw", "implementation": "for_loop"},
    "adamw_torch_4bit": {"name": "adamw_4bit"},
    "adamw_torch_8bit": {"name": "adamw_8bit"},
    "adamw_bnb_8bit": {"name": "adamw_8bit"},
    "adamw_8bit": {"name": "adamw_8bit"},
    "paged_adamw_32bit": {"name": "paged_adamw"},
    "paged_adamw_8bit": {"name": "paged_adamw_8bit"},
    "lion_32bit": {"name": "lion", "implementation": "fused"},
    "lion_8bit": {"name": "lion_8bit"},
    "paged_lion_8bit": {"name": "paged_lion_8bit"},
    "adafactor": {"name": "adafactor"},
    "sgd": {"name": "sgd"},
    "adagrad": {"name": "adagrad", "implementation": "foreach"},
    "rmsprop": {"name": "rmsprop", "implementation": "foreach"},
    "rmsprop_bnb": {"name": "rmsprop", "implementation": "fused"},
    "rmsprop_bnb_32bit": {"name": "rmsprop", "implementation": "fused"},
    "galore_adamw": {"name": "galore_adamw"},
    "galore_adamw_8bit": {"name": "galore_adamw_8bit"},
    "galore_adamw_layerwise": {"name": "galore_adamw", "in_backward": True},
    "galore_adamw_8bit_layerwise": {"name": "galore_adamw_8bit", "in_backward": True},
    "apollo_adamw": {"name": "apollo_adamw"},
    "apollo_adamw_layerwise": {"name": "apollo_adamw", "in_backward": True},
    "lomo": {"name": "lomo", "in_backward": True},
}
TRAINER_WITHOUT_ROW = (
    *("ademamix", "ademamix_8bit", "paged_ademamix_32bit", "paged_ademamix_8bit"),
    *("paged_lion_32bit", "rmsprop_bnb_8bit", "galore_adafactor", "galore_adafactor_layerwise"),
    *("adalomo", "grokadamw", "schedule_free_radam", "schedule_free_adamw", "schedule_free_sgd"),
    "stable_adamw",
)
# axolotl 0.19.0 utils/schemas/enums.py CustomSupportedOptimizers.
AXOLOTL = {
    "ao_adamw_4bit": {"name": "adamw_4bit"},
    "ao_adamw_8bit": {"name": "adamw_8bit"},
    "ao_adamw_fp8": {"name": "adamw_fp8"},
    "muon": {"name": "muon"},
    "q_galore_adamw8bit": {"name": "galore_adamw_8bit", "quantized": True},
}
AXOLOTL_WITHOUT_ROW = (
    *("optimi_adamw", "adopt_adamw", "adamc", "came_pytorch", "dion", "sinkgd", "polora"),
    *("flash_adamw", "flash_adam", "flash_sgd", "flash_sgdw", "flash_lion"),
)
CLASSES = {
    "torch.optim.AdamW": {"name": "adamw", "implementation": "foreach"},
    "torch.optim.SGD": {"name": "sgd", "implementation": "foreach"},
    "torch.optim.Adafactor": {"name": "adafactor"},
    "bitsandbytes.optim.AdamW": {"name": "adamw", "implementation": "fused"},
    "bitsandbytes.optim.PagedAdamW": {"name": "paged_adamw"},
    "bitsandbytes.optim.PagedAdamW8bit": {"name": "paged_adamw_8bit"},
    "bitsandbytes.optim.AdamW8bit": {"name": "adamw_8bit"},
    "bitsandbytes.optim.Lion8bit": {"name": "lion_8bit"},
    "bitsandbytes.optim.SGD": {"name": "sgd_momentum", "implementation": "fused"},
    "torchao.optim.AdamWFp8": {"name": "adamw_fp8"},
    "torchao.prototype.low_bit_optim.AdamW4bit": {"name": "adamw_4bit"},
    "apex.optimizers.FusedAdam": {"name": "adamw", "implementation": "fused"},
    "deepspeed.ops.adam.DeepSpeedCPUAdam": {"name": "adamw", "implementation": "fused"},
    "transformers.optimization.AdamW": {"name": "adamw", "implementation": "for_loop"},
    "galore_torch.GaLoreAdamW8bit": {"name": "galore_adamw_8bit"},
    "FusedAdam": {"name": "adamw", "implementation": "fused"},
    # DeepSpeed's and Megatron's words: their framework says how the step runs.
    "Adam": {"name": "adamw"},
    "AdamW": {"name": "adamw"},
    "Lion": {"name": "lion"},
    "MuAdam": {"name": "adamw"},
}
CLASSES_WITHOUT_ROW = (
    *("bitsandbytes.optim.PagedLion", "bitsandbytes.optim.SGD8bit", "bitsandbytes.optim.LAMB"),
    *("torch.optim.NAdam", "Lamb", "OneBitAdam", "torchao.optim.CPUOffloadOptimizer"),
)


def read(name: str) -> Draft:
    draft = Draft()
    say_optimizer(Found(name, "here"), draft)
    return draft


@pytest.mark.parametrize(
    ("name", "expected"), [*TRAINER.items(), *AXOLOTL.items(), *CLASSES.items()]
)
def test_a_known_name_is_the_optimizer_it_builds(name: str, expected: dict[str, Any]) -> None:
    assert read(name).finished().job["optimizer"] == expected


@pytest.mark.parametrize("name", [*TRAINER_WITHOUT_ROW, *AXOLOTL_WITHOUT_ROW, *CLASSES_WITHOUT_ROW])
def test_a_name_without_a_row_is_unknown_and_never_the_nearest(name: str) -> None:
    parsed = read(name).finished()

    assert "optimizer" not in parsed.job
    assert [one.field for one in parsed.unknown] == ["optimizer"]
    assert [one.code for one in parsed.warnings] == ["optimizer_unknown_to_the_model"]


@pytest.mark.parametrize("name", ["lion_32bit", "bitsandbytes.optim.AdamW", "adamw_anyprecision"])
def test_states_that_are_fp32_whatever_the_weights_are_said_so(name: str) -> None:
    # bitsandbytes optim/optimizer.py get_state_buffer; the Trainer's momentum_dtype float32.
    assert read(name).finished().job["precision"] == {"optimizer_states": "fp32"}


def test_the_last_name_leaves_nothing_of_the_one_before() -> None:
    draft = read("lion_32bit")
    say_optimizer(Found("galore_adamw_layerwise", "there"), draft)
    say_optimizer(Found("adamw_torch", "last"), draft)

    assert draft.finished().job == {"optimizer": {"name": "adamw", "implementation": "foreach"}}


def test_a_later_unknown_name_leaves_no_known_one() -> None:
    draft = read("adamw_torch")
    say_optimizer(Unseen("args[3] --optim", "$OPTIM has no value here"), draft)

    assert draft.finished().job == {}
    assert draft.finished().unknown[0].reason == "$OPTIM has no value here"


def test_a_later_known_name_settles_an_unknown_one() -> None:
    draft = read("dion")
    say_optimizer(Found("sgd", "there"), draft)

    assert draft.finished().unknown == ()


def test_what_is_no_name_is_reported() -> None:
    draft = Draft()
    say_optimizer(Misread("config: optim", [1], "a text"), draft)

    assert [one.rule for one in draft.finished().problems] == ["not_a_value"]


@pytest.mark.parametrize(("momentum", "name"), [(0.9, "sgd_momentum"), (0.0, "sgd")])
def test_momentum_makes_another_sgd(momentum: float, name: str) -> None:
    draft = read("torch.optim.SGD")
    say_momentum(Found(momentum, "optim_args"), draft)

    assert draft.finished().job["optimizer"]["name"] == name


def test_momentum_says_nothing_of_other_optimizers() -> None:
    draft = read("rmsprop")
    say_momentum(Found(0.9, "optim_args"), draft)

    assert draft.finished().job["optimizer"]["name"] == "rmsprop"
