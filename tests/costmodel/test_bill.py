"""The bill adds up to the peak and its formulas hold the numbers; warnings appear in jobs that call for them only."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.costmodel.engine_jobs import (
    HIDDEN,
    LAYERS,
    PARAMETERS,
    TABLE,
    TOKENS,
    VOCABULARY,
    a_job,
    cards,
    estimated,
    llama,
)
from vramgate.catalog.models import builtin_models
from vramgate.costmodel.breakdown import BillLine, Component, MemoryEstimate, Phase
from vramgate.costmodel.estimate import estimate_memory
from vramgate.errors import DomainError
from vramgate.units import format_gib

FOREACH = {"name": "adamw", "implementation": "foreach"}
FUSED = {"name": "adamw", "implementation": "fused"}


def _line(estimate: MemoryEstimate, component: Component) -> BillLine:
    (line,) = (line for line in estimate.bill if line.component is component)
    return line


def _numbers(text: str) -> set[int]:
    return {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)}


MODELS = [{"name": e.name} for e in builtin_models().entries[::5]]


@given(
    st.sampled_from(MODELS),
    st.sampled_from(["full", {"kind": "lora", "rank": 8}, "qlora", "freeze"]),
    st.sampled_from(["none", "selective", "full"]),
    st.sampled_from(["fp32", "bf16-mixed", "bf16-master"]),
    st.sampled_from(["none", "ddp", "deepspeed", "fsdp", "fsdp2"]),
)
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_the_bill_adds_up_to_the_peak(
    model: dict[str, Any], method: object, checkpointing: str, precision: str, sharding: str
) -> None:
    fields: dict[str, Any] = {} if sharding == "none" else {"hardware": cards(4)}
    fields |= {"sharding": {"implementation": sharding}}
    note(f"{model} {method} {checkpointing} {precision} {sharding}")
    try:
        job = a_job(
            model=model,
            method=method,
            activation_checkpointing=checkpointing,
            precision=precision,
            **fields,
        )
    except DomainError:
        return
    estimate = estimate_memory(job)
    assert sum(line.bytes for line in estimate.bill) == estimate.peak.allocated_bytes
    sizes = [line.bytes for line in estimate.bill]
    assert sizes == sorted(sizes, reverse=True)
    assert all(line.bytes > 0 and line.formula for line in estimate.bill)
    (peak,) = (one for one in estimate.timeline if one.phase is estimate.peak.phase)
    assert {line.component: line.bytes for line in estimate.bill} == peak.components


def test_the_line_of_the_weights_multiplies_parameters_and_bytes() -> None:
    line = _line(estimated(), Component.WEIGHTS)
    assert {PARAMETERS, 2, 2 * PARAMETERS} <= _numbers(line.formula)


def test_the_line_of_sharded_weights_names_the_ranks() -> None:
    estimate = estimated(hardware=cards(4), sharding={"implementation": "fsdp2"})
    assert "÷ 4 ranks" in _line(estimate, Component.WEIGHTS).formula
    whole = estimated(hardware=cards(4), sharding={"implementation": "deepspeed", "zero_stage": 2})
    assert "ranks" not in _line(whole, Component.WEIGHTS).formula
    assert "÷ 4 ranks" in _line(whole, Component.OPTIMIZER_STATES).formula


def test_the_line_of_quantised_weights_names_the_format() -> None:
    formula = _line(estimated(method="qlora"), Component.WEIGHTS).formula
    assert "nf4" in formula
    assert "adapter parameters" in formula


def test_the_line_of_the_states_names_optimizer_and_bytes() -> None:
    line = _line(estimated(precision="fp32", optimizer=FUSED), Component.OPTIMIZER_STATES)
    assert line.bytes == 8 * PARAMETERS
    assert {PARAMETERS, 8} <= _numbers(line.formula)
    assert "adamw" in line.formula


def test_the_line_of_the_master_copy_multiplies_by_four() -> None:
    line = _line(estimated(precision="bf16-master"), Component.MASTER_WEIGHTS)
    assert line.bytes == 4 * PARAMETERS
    assert {PARAMETERS, 4} <= _numbers(line.formula)


def test_the_line_of_the_activations_adds_up() -> None:
    line = _line(estimated(), Component.ACTIVATIONS)
    count, each, rest = re.match(
        r"(\d+) waiting .* blocks × ([\d,]+) \+ ([\d,]+) ", line.formula
    ).groups()  # type: ignore[union-attr]
    assert int(count) == LAYERS
    total = LAYERS * int(each.replace(",", "")) + int(rest.replace(",", ""))
    assert total == line.bytes
    assert f"for {TOKENS} tokens" in line.formula


def test_the_line_of_the_logits_says_how_many_are_alive() -> None:
    estimate = estimated()
    assert estimate.peak.phase is Phase.LOSS
    formula = _line(estimate, Component.LOGITS).formula
    assert {TOKENS, VOCABULARY, 12} <= _numbers(formula)


def test_the_line_of_foreachs_temporary_names_it() -> None:
    estimate = estimated(precision="fp32", optimizer=FOREACH)
    line = _line(estimate, Component.TEMPORARIES)
    assert line.bytes == 4 * PARAMETERS
    assert "foreach" in line.formula
    assert 4 * PARAMETERS in _numbers(line.formula)
    gradients = _line(estimate, Component.GRADIENTS)
    assert {PARAMETERS, 4} <= _numbers(gradients.formula)


def test_the_line_of_gathered_parameters_parts_root_and_blocks() -> None:
    estimate = estimated(hardware=cards(4), sharding={"implementation": "fsdp2"})
    line = _line(estimate, Component.GATHERED_PARAMETERS)
    root = 2 * (2 * TABLE + HIDDEN)
    assert {root, line.bytes - root} <= _numbers(line.formula)


# -- warnings ------------------------------------------------------------------------------------------------------

WIDE = llama(vocab_size=100_000)
NARROW = llama(vocab_size=100)
T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 256,
    "d_ff": 512,
    "d_kv": 64,
    "num_heads": 4,
    "num_layers": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}
KBIT = {"kind": "qlora", "rank": 8, "prepare_for_kbit_training": True}
LONG = {"sequence_length": 2048, "model": NARROW}


@pytest.mark.parametrize(
    ("code", "called_for", "not_called_for"),
    [
        ("autocast_weight_cache", {"precision": "bf16-mixed"}, {"precision": "bf16-true"}),
        (
            "foreach_temporary",
            {"optimizer": FOREACH, "precision": "fp32", "model": NARROW},
            {"optimizer": FUSED, "precision": "fp32", "model": NARROW},
        ),
        # Not the peak: the loss of a wide vocabulary is.
        (
            "foreach_temporary",
            {"optimizer": FOREACH, "precision": "fp32", "model": NARROW},
            {"optimizer": FOREACH, "precision": "fp32", "sequence_length": 4096},
        ),
        ("large_vocabulary_logits", {"model": WIDE, "sequence_length": 2048}, {"model": NARROW}),
        (
            "large_vocabulary_logits",
            {"model": WIDE, "sequence_length": 2048},
            {"model": WIDE, "sequence_length": 2048, "loss": "fused_linear"},
        ),
        ("eager_attention", {**LONG, "attention": "eager"}, {**LONG, "attention": "sdpa"}),
        (
            "kbit_upcast",
            {"method": KBIT},
            {"method": {**KBIT, "prepare_for_kbit_training": False}},
        ),
        (
            "head_tied_by_framework",
            {"model": {"config": T5}, "attention": "eager"},
            {"model": {"config": {**T5, "tie_word_embeddings": True}}, "attention": "eager"},
        ),
        (
            "head_tied_by_framework",
            {"model": {"config": T5}, "attention": "eager"},
            {
                "model": {"config": T5},
                "attention": "eager",
                "software": {"framework": "transformers", "stack": "transformers 4.57"},
            },
        ),
    ],
)
def test_a_warning_is_in_the_job_that_calls_for_it(
    code: str, called_for: dict[str, Any], not_called_for: dict[str, Any]
) -> None:
    assert code in {warning.code for warning in estimated(**called_for).warnings}
    assert code not in {warning.code for warning in estimated(**not_called_for).warnings}


def test_a_model_of_unknown_family_is_said_to_be_approximate() -> None:
    unknown = estimated(model={"parameters": 10**9})
    known = estimated()
    approximate = [w.message for w in unknown.warnings if w.code == "approximate_model"]
    assert list(a_job(model={"parameters": 10**9}).architecture.approximate) == approximate
    assert not [w for w in known.warnings if w.code == "approximate_model"]


def test_warnings_name_their_bytes() -> None:
    estimate = estimated(precision="fp32", optimizer=FOREACH, model=NARROW)
    (warning,) = (w for w in estimate.warnings if w.code == "foreach_temporary")
    line = _line(estimate, Component.TEMPORARIES)
    assert format_gib(int(line.bytes)) in warning.message


def test_the_kbit_warning_names_what_fp32_adds() -> None:
    # Embedding, output layer and final norm: two bytes a parameter more than in 16 bits.
    (warning,) = (w for w in estimated(method=KBIT).warnings if w.code == "kbit_upcast")
    assert format_gib(2 * (2 * TABLE + HIDDEN)) in warning.message
