"""Megatron-LM's arguments: exact models, little languages, and what they leave unsaid."""

import shlex
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.costmodel.families import architecture_from_config
from vramgate.launch.draft import Draft, ParsedLaunch
from vramgate.launch.files import Files
from vramgate.launch.frameworks.megatron import reader as megatron
from vramgate.launch.frameworks.megatron.arguments import of_command_line
from vramgate.launch.frameworks.megatron.family import nearest_family
from vramgate.launch.frameworks.megatron.model import read_shape
from vramgate.launch.frameworks.megatron.pattern import (
    NoPatternError,
    layer_pattern,
    layout_stages,
)
from vramgate.launch.frameworks.megatron.shape import Shape, parameters
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found
from vramgate.launch.words import Word

SMALL = (
    "--micro-batch-size 1 --bf16 --seq-length 128 --max-position-embeddings 128"
    " --num-attention-heads 8 --num-layers 3 --hidden-size 128"
)
LLAMA = (
    f"{SMALL} --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope"
    " --untie-embeddings-and-output-weights"
)
LATENT = (
    f"{LLAMA} --multi-latent-attention --kv-lora-rank 32 --qk-head-dim 16 --qk-pos-emb-head-dim 8"
    " --v-head-dim 16"
)

# Parameters of the GPTModel that Megatron-LM d98e8a64 builds of these arguments with its local
# layers, 512 rows, on the meta device.
BUILT = [
    (SMALL, 676_992),
    (f"{SMALL} --disable-bias-linear", 673_536),
    (f"{SMALL} --disable-bias-linear --add-qkv-bias", 674_688),
    (f"{SMALL} --group-query-attention --num-query-groups 2", 602_688),
    (f"{SMALL} --num-query-groups 2", 676_992),
    (f"{SMALL} --kv-channels 32", 874_752),
    (f"{SMALL} --qk-layernorm --position-embedding-type rope", 660_800),
    (f"{SMALL} --num-experts 4", 1_863_948),
    (LLAMA, 697_216),
    (LLAMA.replace("--disable-bias-linear ", ""), 701_056),
    (LLAMA.replace("--swiglu", "--squared-relu"), 721_792),
    (LLAMA.replace("--swiglu", "--quick-geglu"), 918_400),
    (f"{LLAMA} --group-query-attention --num-query-groups 2 --ffn-hidden-size 300", 600_448),
    (f"{LLAMA} --add-qkv-bias", 698_368),
    (f"{LLAMA} --qk-layernorm", 697_312),
    (f"{LLAMA} --mtp-num-layers 2", 1_140_864),
    (f"{LLAMA} --num-experts 4 --moe-ffn-hidden-size 96", 772_480),
    (
        f"{LLAMA} --num-experts 4 --moe-ffn-hidden-size 96 --moe-layer-freq [0]*1+[1]*2"
        " --moe-shared-expert-intermediate-size 192",
        894_848,
    ),
    (
        f"{LLAMA} --num-experts 4 --moe-layer-freq 2 --moe-shared-expert-gate"
        " --moe-shared-expert-intermediate-size 192",
        1_583_232,
    ),
    (f"{LATENT} --q-lora-rank 48 --qk-layernorm", 636_016),
    (LATENT, 663_424),
    (
        f"{LATENT} --q-lora-rank 48 --qk-layernorm --num-experts 4 --moe-layer-freq [0]*1+[1]*2"
        " --mtp-num-layers 1",
        1_944_896,
    ),
]
ROWS = 512


def words(line: str) -> tuple[Word, ...]:
    return tuple(
        Word(text=text, source=f"args[{i}]", unresolved=(text,) if text.startswith("$") else ())
        for i, text in enumerate(shlex.split(line))
    )


def shape_of(line: str) -> Shape:
    shape = read_shape(of_command_line(words(line), "pretrain_gpt.py"), ROWS, Draft())
    assert isinstance(shape, Shape)
    return shape


def parsed(line: str, *, devices: int = 8, stack: str = "") -> ParsedLaunch:
    draft = Draft()
    draft.say("hardware.devices", Found(devices, "args[2] --nproc_per_node"))
    environment = {"VRAMGATE_STACK": Word(text=stack, source="env VRAMGATE_STACK")}
    invocation = Invocation(
        program="pretrain_gpt.py", words=words(line), environment=environment, source="args[3]"
    )
    megatron.read(invocation, Context(draft=draft, files=Files()))
    return draft.finished()


@pytest.mark.parametrize(("line", "built"), BUILT)
def test_parameters_are_those_megatron_builds(line: str, built: int) -> None:
    assert parameters(shape_of(line)) == built


@pytest.mark.parametrize(("line", "built"), BUILT)
def test_a_family_says_how_far_it_is_off(line: str, built: int) -> None:
    family = nearest_family(shape_of(line))

    assert family is not None
    assert architecture_from_config(family.config).parameters - family.difference == built


def test_a_family_that_is_off_is_named_with_what_it_lacks() -> None:
    found = parsed(f"{LATENT} --padded-vocab-size 512")

    # Without qk-layernorm Megatron has no norm on the latent: 3 layers × 32.
    assert [one.message for one in found.warnings] == [
        "Megatron builds 663,424 parameters; as deepseek_v3 the model has 96 more."
    ]


def test_a_family_that_would_mislead_is_none() -> None:
    found = parsed(f"{SMALL} --num-experts 4 --padded-vocab-size 512")

    assert [one.field for one in found.unknown] == ["model"]
    assert "762,356 parameters more than Megatron's 1,863,948" in found.unknown[0].reason


@pytest.mark.parametrize(
    ("text", "layers", "sparse"),
    [
        ("1", 3, [0, 1, 2]),
        ("3", 7, [0, 3, 6]),
        ("([1]*3+[0]*1)*2", 8, [0, 1, 2, 4, 5, 6]),
        ("[0,1]*2", 4, [1, 3]),
        ("([0]+[1]*3)", 4, [1, 2, 3]),
        ("2*[0, 1]", 4, [1, 3]),
    ],
)
def test_patterns_choose_the_layers_python_would(text: str, layers: int, sparse: list[int]) -> None:
    chosen = layer_pattern(text, layers)

    assert [layer for layer, one in enumerate(chosen) if one] == sparse


@pytest.mark.parametrize(
    "text",
    [
        "[0]*3",
        "0",
        "[",
        "([1]",
        "[1]*[1]",
        "[1]*999999999",
        "[1]*9999*9999*9999",
        "(" * 500 + "[1]" + ")" * 500,
        "__import__('os')",
        "[1]" * 50_000,
        "[-1]*4",
    ],
)
def test_what_is_no_pattern_of_these_layers_is_refused(text: str) -> None:
    with pytest.raises(NoPatternError):
        layer_pattern(text, 4)


@pytest.mark.parametrize(
    ("layout", "stages"),
    [
        ("Ettt|(tt|)*29,m|L", (3, *(2,) * 29, 0, 0)),
        ("E|t*3|t*2L", (0, 3, 2)),
        ("(|tt)*2,L", (0, 2, 2)),
    ],
)
def test_layouts_unroll_as_in_megatron(layout: str, stages: tuple[int, ...]) -> None:
    assert layout_stages(layout) == stages


@pytest.mark.parametrize("layout", ["Ex|L", "(t|)*9999,(t|)*9999", "t*9999|" * 5_000])
def test_what_is_no_layout_is_refused(layout: str) -> None:
    with pytest.raises(NoPatternError):
        layout_stages(layout)


def test_a_switch_takes_no_word_and_options_may_hide_behind_it() -> None:
    found = parsed(f"{LLAMA} --padded-vocab-size 512 --sequence-parallel $EXTRA")

    assert found.job["parallelism"] == {"sequence_parallel": True}
    assert [one.code for one in found.warnings if one.code == "hidden_arguments"]


def test_a_value_without_a_value_is_unknown_alone() -> None:
    found = parsed(f"{LLAMA} --padded-vocab-size $ROWS")

    assert [one.field for one in found.unknown] == ["model"]
    assert found.unknown[0].hint == "give $ROWS in launch.env"


def test_an_assumed_vocabulary_is_listed() -> None:
    found = parsed(SMALL)

    (model,) = (one for one in found.assumptions if one.field == "model.config")
    assert "GPT2BPETokenizer: 50257 tokens before padding" in model.source
    assert found.job["model"]["config"]["vocab_size"] == 50_304


def test_heads_that_do_not_divide_need_kv_channels() -> None:
    found = parsed(f"{SMALL} --num-attention-heads 7 --padded-vocab-size 512")

    assert [one.rule for one in found.problems] == ["not_a_value"]
    assert "model" not in found.job


def test_more_layers_than_any_model_has_are_no_layers() -> None:
    found = parsed(f"{SMALL} --num-experts 4 --num-layers 1000000000 --padded-vocab-size 512")

    assert [one.rule for one in found.problems] == ["not_a_value"]


def test_several_optimizer_copies_divide_the_ranks_that_share_states() -> None:
    line = f"{LLAMA} --padded-vocab-size 512 --use-distributed-optimizer"
    wrong = parsed(f"{line} --num-distributed-optimizer-instances 3")
    context = parsed(
        f"{line} --num-distributed-optimizer-instances 2 --context-parallel-size 4", devices=4
    )

    assert [one.rule for one in wrong.problems] == ["optimizer_instances"]
    assert "optimizer_instances" in {one.code for one in context.warnings}


def test_a_growing_batch_takes_the_last_and_says_so() -> None:
    found = parsed(
        f'{LLAMA} --padded-vocab-size 512 --step-batch-size-schedule "0:16 250B:32 1T:64"'
    )

    assert found.job["gradient_accumulation_steps"] == 8
    assert "growing_batch" in {one.code for one in found.warnings}


def test_moments_of_different_formats_are_counted_as_the_wider() -> None:
    found = parsed(
        f"{LLAMA} --padded-vocab-size 512 --use-distributed-optimizer"
        " --use-precision-aware-optimizer --exp-avg-dtype fp8 --exp-avg-sq-dtype bf16"
    )

    assert found.job["precision"]["optimizer_states"] == "bf16"
    assert {"moments_differ", "master_weight_remainders"} <= {one.code for one in found.warnings}


def test_both_formats_of_gradients_exclude_each_other() -> None:
    found = parsed(
        f"{LLAMA} --padded-vocab-size 512 --use-precision-aware-optimizer --main-grads-dtype bf16"
        " --accumulate-allreduce-grads-in-fp32"
    )

    assert [one.rule for one in found.problems] == ["bf16_gradients_accumulated_in_fp32"]


def test_fsdp_version_2_has_no_distributed_optimizer() -> None:
    found = parsed(
        f"{LLAMA} --padded-vocab-size 512 --use-megatron-fsdp --megatron-fsdp-version 2"
        " --use-distributed-optimizer"
    )

    assert [one.rule for one in found.problems] == ["fsdp_version_2_with_distributed_optimizer"]


def test_the_local_backend_needs_the_local_layers() -> None:
    found = parsed(f"{LLAMA} --padded-vocab-size 512 --attention-backend local")

    assert [one.rule for one in found.problems] == ["local_attention_without_spec"]


@pytest.mark.parametrize(
    ("stack", "rules"),
    [("megatron-core 0.19", ["engine_loss_disabled"]), ("megatron-core 0.18", []), ("", [])],
)
def test_the_engines_loss_is_refused_from_core_0_19_on(stack: str, rules: list[str]) -> None:
    fused = "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te"  # codespell:ignore te
    found = parsed(f"{LLAMA} --padded-vocab-size 512 {fused}", stack=stack)

    assert found.job["loss"] == "fused"
    assert [one.rule for one in found.problems] == rules


def test_a_loss_in_fp16_needs_fp16() -> None:
    found = parsed(f"{LLAMA} --padded-vocab-size 512 --fp16-lm-cross-entropy")

    assert [one.rule for one in found.problems] == ["fp16_loss_without_fp16"]


def test_activations_offloaded_work_with_neither_pipeline_nor_recomputation() -> None:
    found = parsed(
        f"{LLAMA} --padded-vocab-size 512 --cpu-offloading-num-layers 1 --recompute-activations"
        " --recompute-granularity selective"
    )

    assert [one.rule for one in found.problems] == ["offload_with_recompute_or_pipeline"]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.integers() | st.text(max_size=5), max_size=3),
    st.sampled_from(["4", "1e400", "nan", "[1]*3", "full", "bf16", "-1", "0", "E|(t|)*3L"]),
)
OTHERS = """recompute_granularity recompute_method recompute_num_layers recompute_modules
pipeline_model_parallel_size pipeline_model_parallel_layout hybrid_layer_pattern
global_batch_size num_layers_per_virtual_pipeline_stage tensor_model_parallel_size
tokenizer_type tokenizer_model vocab_size make_vocab_size_divisible_by window_size
fp8_format fp8_recipe exp_avg_dtype optimizer step_batch_size_schedule mamba_head_dim
use_megatron_fsdp data_parallel_sharding_strategy num_distributed_optimizer_instances
attention_backend mixed_precision hidden_dropout rotary_percent padded_vocab_size model train"""
NAMES = st.sampled_from(
    sorted(
        {
            word[2:].replace("-", "_")
            for line, _ in BUILT
            for word in line.split()
            if word.startswith("--")
        }
    )
    + OTHERS.split()
)
WHOLE = {
    "num_layers": 3,
    "hidden_size": 128,
    "num_attention_heads": 8,
    "max_position_embeddings": 128,
    "padded_vocab_size": 512,
}


@given(st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES), max_size=25))
def test_any_object_is_read(config: Mapping[str, Any]) -> None:
    draft = Draft()

    megatron.read_config({**WHOLE, **config}, "config", Context(draft=draft, files=Files()))

    assert draft.finished().framework == "megatron"


@given(st.lists(st.tuples(NAMES, st.lists(st.text(max_size=8) | st.just("$X"), max_size=2))))
def test_any_command_line_is_read(said: list[tuple[str, list[str]]]) -> None:
    draft = Draft()
    texts = [text for name, values in said for text in (f"--{name.replace('_', '-')}", *values)]
    line = tuple(
        Word(text=text, source=f"args[{i}]", unresolved=("$X",) if text == "$X" else ())
        for i, text in enumerate(texts)
    )
    invocation = Invocation(program="pretrain_gpt.py", words=line, environment={}, source="args[0]")

    megatron.read(invocation, Context(draft=draft, files=Files()))

    assert draft.finished().framework == "megatron"
