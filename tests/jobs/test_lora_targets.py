"""Which modules a LoRA adapts, as peft decides it, and expressions that must not run."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.describing import resolved, warning_codes
from vramgate.jobs.lora_targets import is_named, peft_targets
from vramgate.jobs.target_patterns import UnsafePatternError, checked_pattern, matched_modules

BLOCKS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.down_proj")

# unsloth_zoo peft_utils.py get_peft_regex writes expressions of this form.
UNSLOTH = (
    r"(?:.*?(?:language|text).*?(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense)"
    r".*?(?:k_proj|v_proj|q_proj|out_proj|fc1|fc2|o_proj).*?)|(?:\bmodel\.layers\.[\d]{1,}\."
    r"(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense)\.(?:(?:k_proj|v_proj|q_proj|fc1)))"
)


@pytest.mark.parametrize(
    ("path", "names", "adapted"),
    [  # peft tuners_utils.py: key in target_modules or key.endswith("." + target)
        ("self_attn.q_proj", ("q_proj",), True),
        ("self_attn.q_proj", ("self_attn.q_proj",), True),
        ("self_attn.q_proj", ("layers.0.self_attn.q_proj",), True),
        ("self_attn.q_proj", ("proj",), False),
        ("self_attn.q_proj", ("self_attn",), False),
        ("lm_head", ("lm_head",), True),
    ],
)
def test_lists_match_whole_dotted_ends(path: str, names: tuple[str, ...], adapted: bool) -> None:
    assert is_named(path, names) is adapted


@pytest.mark.parametrize(
    ("pattern", "modules", "layers"),
    [
        (r".*\.(q_proj|v_proj)", ("self_attn.q_proj", "self_attn.v_proj"), 32),
        (r"model\.layers\.(0|1|2)\.self_attn\.q_proj", ("self_attn.q_proj",), 3),
        (r"transformer\.h\.\d+\.mlp\.down_proj", ("mlp.down_proj",), 32),
        (r"q_proj", (), 0),  # fullmatch: the whole name or nothing
        (r".*lm_head", ("lm_head",), 0),
        (UNSLOTH, ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), 32),
    ],
)
def test_expressions_match_whole_names(pattern: str, modules: tuple[str, ...], layers: int) -> None:
    found = matched_modules(pattern, BLOCKS, ("lm_head",), 32)

    assert (found.modules, found.layers) == (modules, layers)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(x{1,60}){1,60}",
        "(.*)*",
        ".*.*.*.*.*x",
        ".*.*.*.*(a|b).*.*x",
        "((.*.*|a).*.*).*",
        r"(a)\1",
        "(?=.*a.*)b",
        "(?P<n>a)",
        "[",
        "a**",
        "(" * 200,
    ],
)
def test_expressions_that_could_take_long_are_not_run(pattern: str) -> None:
    with pytest.raises(UnsafePatternError):
        checked_pattern(pattern)


def test_an_expression_that_takes_long_is_given_up() -> None:
    # Four repeats over names of 200 letters: some 60 million steps a name.
    names = tuple(f"{'a' * 200}{number}" for number in range(20))

    with pytest.raises(UnsafePatternError, match="too long"):
        matched_modules(".*a.*a.*a.*b", names, (), 32)


@given(st.text(alphabet="ab.*+?()[]|{}1,\\d^$", max_size=40))
def test_any_expression_is_answered_soon(pattern: str) -> None:
    start = time.perf_counter()
    with contextlib.suppress(UnsafePatternError):
        matched_modules(pattern, BLOCKS, ("lm_head",), 128)
    assert time.perf_counter() - start < 2


def test_an_expression_for_some_layers_is_warned_about() -> None:
    result = resolved(
        method={"kind": "lora", "target_modules": r"model\.layers\.[0-7]\.self_attn\.q_proj"}
    )

    assert "some_layers_adapted" in warning_codes(result)
    assert result.job.method.target_modules == ("self_attn.q_proj",)


def test_the_normalised_job_keeps_the_expression() -> None:
    pattern = r".*\.(q_proj|v_proj)"

    result = resolved(method={"kind": "lora", "target_modules": pattern})

    assert result.description.method.target_modules == pattern


def test_llamas_names_mean_what_does_their_work_in_another_model() -> None:
    # GPT-2 has one c_attn for query, key and value; benchmark tables say q_proj, v_proj.
    result = resolved(
        model={"name": "openai-community/gpt2"},
        method={"kind": "lora", "target_modules": ["q_proj", "v_proj"]},
        sequence_length=512,
    )

    assert result.job.method.target_modules == ("attn.c_attn",)
    assert "targets_renamed" in warning_codes(result)


def test_names_that_match_nothing_beside_some_that_do_are_warned_about() -> None:
    result = resolved(method={"kind": "lora", "target_modules": ["q_proj", "c_attn"]})

    (warning,) = (one for one in result.warnings if one.code == "unmatched_targets")
    assert "c_attn" in warning.message


def test_split_projections_are_litgpts_own() -> None:
    # Phi-3 has qkv_proj and gate_up_proj; litgpt's LoRA splits them. peft would pass over q_proj.
    targets = ["q_proj", "o_proj"]
    model = {"name": "microsoft/Phi-3-mini-4k-instruct"}
    method = {"kind": "lora", "target_modules": targets}

    own = resolved(model=model, method=method, software={"framework": "litgpt"})
    pefts = resolved(model=model, method=method)

    assert own.job.method.target_modules == ("o_proj", "self_attn.qkv_proj")
    assert pefts.job.method.target_modules == ("q_proj", "o_proj")
    assert "unmatched_targets" in warning_codes(pefts)


def test_a_tied_head_can_be_named_and_is_said_not_to_be_counted() -> None:
    result = resolved(
        model={"name": "google/gemma-2b"},
        method={"kind": "lora", "target_modules": ["lm_head", "q_proj"]},
    )

    assert "embedding_adapter" in warning_codes(result)


def test_pefts_defaults_by_model_type() -> None:
    # peft utils/constants.py
    assert peft_targets("llama") == ("q_proj", "v_proj")
    assert peft_targets("falcon") == ("query_key_value",)
    assert peft_targets("unheard-of") is None


def test_a_model_peft_does_not_know_gets_every_linear_layer() -> None:
    result = resolved(model={"name": "allenai/OLMo-2-1124-7B"}, method="lora")

    assert result.job.method.target_modules == "all-linear"
