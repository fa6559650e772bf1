"""Models of no known family: from their shape, or from a parameter count alone; both say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costmodel.families.catalog_rows import config_of
from vramgate.costmodel.families import architecture_from_config, architecture_from_parameters
from vramgate.errors import InvalidModelConfigError

LLAMA = "meta-llama/Llama-2-7b-hf"


def test_an_unknown_type_is_counted_by_its_shape_and_says_so() -> None:
    architecture = architecture_from_config(config_of(LLAMA, model_type="brand_new"))

    assert architecture.parameters == 6_738_415_616
    assert architecture.family == "generic"
    assert "brand_new" in architecture.approximate[0]


def test_an_unknown_type_without_a_size_is_refused() -> None:
    config = config_of(LLAMA, model_type="brand_new", hidden_size=None)

    with pytest.raises(InvalidModelConfigError) as caught:
        architecture_from_config(config)

    assert caught.value.fields[0].pointer == "/model/config/hidden_size"


def test_an_unknown_type_with_experts_has_them() -> None:
    config = config_of("mistralai/Mixtral-8x7B-v0.1", model_type="brand_new")

    architecture = architecture_from_config(config)

    assert architecture.parameters == 46_702_792_704
    assert architecture.active_parameters == 12_879_925_248


def test_an_unknown_encoder_is_taken_as_bert() -> None:
    config = config_of("google-bert/bert-base-uncased", model_type="brand_new")

    architecture = architecture_from_config(config)

    assert architecture.parameters == 109_514_298
    assert "BERT" in architecture.approximate[0]


def test_an_unknown_encoder_decoder_is_taken_as_bart() -> None:
    config = config_of("facebook/bart-base", model_type="brand_new")

    assert architecture_from_config(config).parameters == 139_420_416


def test_an_unknown_latent_attention_is_taken_as_deepseeks() -> None:
    config = config_of("deepseek-ai/DeepSeek-V2-Lite", model_type="brand_new")
    config["q_lora_rank"] = None

    assert architecture_from_config(config).parameters == 15_706_484_224


def test_an_unknown_multimodal_model_counts_its_text_and_says_so() -> None:
    config = config_of("llava-hf/llava-1.5-7b-hf", model_type="brand_new")

    architecture = architecture_from_config(config)

    # Llama-2-7B with 64 rows more in embedding and head.
    assert architecture.parameters == 6_738_415_616 + 2 * 64 * 4_096
    assert architecture.family == "generic"
    assert "text_config" in architecture.approximate[0]


@given(st.integers(min_value=1_000_000, max_value=10**14))
def test_a_parameter_count_is_met_exactly(parameters: int) -> None:
    architecture = architecture_from_parameters(parameters)

    assert architecture.parameters == parameters
    assert architecture.family == "generic"
    assert f"{parameters:,}" in architecture.approximate[0]


def test_seven_billion_parameters_look_like_llama() -> None:
    architecture = architecture_from_parameters(7_000_000_000)

    # Llama-3-8B: 32 layers of width 4096.
    assert 24 <= architecture.num_hidden_layers <= 40
    assert 3_000 <= architecture.hidden_size <= 5_000


@pytest.mark.parametrize("parameters", [0, -1, 999_999, 10**14 + 1, True, 7e9])
def test_an_absurd_count_is_refused(parameters: int) -> None:
    with pytest.raises(InvalidModelConfigError) as caught:
        architecture_from_parameters(parameters)

    assert caught.value.fields[0].pointer == "/model/parameters"
