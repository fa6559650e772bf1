"""Counts worked out by hand from the published sizes; the sums stand in the comments."""

import pytest

from tests.costmodel.families.catalog_rows import config_of
from vramgate.costmodel.architecture import Part
from vramgate.costmodel.families import architecture_from_config

HAND_CHECKED = {
    # Embedding and head 2 × 32000 × 4096 = 262,144,000. A layer: attention 4 × 4096² =
    # 67,108,864, feed-forward 3 × 4096 × 11008 = 135,266,304, norms 2 × 4096 = 8,192;
    # 32 × 202,383,360 = 6,476,267,520. Final norm 4,096.
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    # 262,144,000 as above. A layer: query and output 2 × 4096², key and value 2 × 4096 × 1024,
    # feed-forward 3 × 4096 × 14336, norms 8,192; 32 × 218,112,000. Final norm 4,096.
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    # The same, but a layer's feed-forward is 8 experts of 3 × 4096 × 14336 and a router of
    # 8 × 4096; 32 × 1,451,270,144 = 46,440,644,608.
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    # Tables (50257 + 1024) × 768 = 39,383,808. A layer: c_attn 768 × 2304 + 2304, c_proj
    # 768² + 768, c_fc 768 × 3072 + 3072, c_proj 3072 × 768 + 768, two norms of 1,536;
    # 12 × 7,087,872 = 85,054,464. Final norm 1,536. The head is the embedding.
    "openai-community/gpt2": 124_439_808,
    # Tables (30522 + 512 + 2) × 768 + norm 1,536. A layer: 4 × (768² + 768), 2 × 768 × 3072 +
    # 3072 + 768, two norms; 12 × 7,087,872. Head: dense 590,592, norm 1,536, bias 30,522.
    "google-bert/bert-base-uncased": 109_514_298,
    # Shared 32128 × 512 = 16,449,536. Encoder layer 4 × 512² + 2 × 512 × 2048 + 2 × 512, six of
    # them; decoder layer with cross-attention and a third norm 4,195,840, six of them; two tables
    # of 32 × 8 position biases, two final norms of 512.
    "google-t5/t5-small": 60_506_624,
    # Patches 3 × 16² × 768 + 768, class token 768, positions 197 × 768, twelve layers as BERT's,
    # norm 1,536, classifier 768 × 1000 + 1000.
    "google/vit-base-patch16-224": 86_567_656,
    # Embedding and head 2 × 102400 × 2048. Attention: q 2048 × 3072, kv_a 2048 × 576, norm 512,
    # kv_b 512 × 4096, o 2048²; with two norms 13,767,168 × 27. One dense layer 3 × 2048 × 10944;
    # 26 × (router 64 × 2048, experts 64 × 3 × 2048 × 1408, shared 3 × 2048 × 2816); norm 2,048.
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    # Embedding and head 2 × 151936 × 2048. A layer: c_attn 2048 × 6144 + 6144, c_proj 2048²,
    # 3 × 2048 × 5504 (half of intermediate_size), norms 4,096; 24 × 50,604,032. Norm 2,048.
    "Qwen/Qwen-1_8B": 1_836_828_672,
    # Embedding 50280 × 768. A layer: in 768 × 3072, convolution 1536 × 4 + 1536, x 1536 × 80,
    # dt 48 × 1536 + 1536, A 1536 × 16, D 1536, out 1536 × 768, norm 768; 24 × 3,771,648. Norm 768.
    "state-spaces/mamba-130m-hf": 129_135_360,
}


@pytest.mark.parametrize(("name", "parameters"), HAND_CHECKED.items())
def test_total_equals_the_hand_count(name: str, parameters: int) -> None:
    assert architecture_from_config(config_of(name)).parameters == parameters


def test_llama_is_counted_by_part() -> None:
    parts = architecture_from_config(config_of("meta-llama/Llama-2-7b-hf")).parameters_by_part()

    assert parts[Part.EMBEDDING] == 32_000 * 4_096
    assert parts[Part.HEAD] == 32_000 * 4_096
    assert parts[Part.ATTENTION] == 32 * 4 * 4_096**2
    assert parts[Part.MLP] == 32 * 3 * 4_096 * 11_008
    assert parts[Part.NORM] == (2 * 32 + 1) * 4_096
    assert parts[Part.EXPERTS] == parts[Part.ROUTER] == parts[Part.OTHER] == 0


def test_mixtral_passes_two_of_eight_experts() -> None:
    architecture = architecture_from_config(config_of("mistralai/Mixtral-8x7B-v0.1"))

    # Six experts of 3 × 4096 × 14336 are idle in each of 32 layers.
    idle = 6 * 3 * 4_096 * 14_336 * 32
    assert architecture.active_parameters == 46_702_792_704 - idle


def test_a_dense_model_has_no_active_parameters() -> None:
    architecture = architecture_from_config(config_of("meta-llama/Llama-2-7b-hf"))

    assert architecture.active_parameters is None


def test_flan_t5_has_a_head_beside_the_embedding() -> None:
    architecture = architecture_from_config(config_of("google/flan-t5-large"))

    heads = [module for module in architecture.outside if module.role == "head"]
    assert [head.parameters for head in heads] == [32_128 * 1_024]


def test_albert_counts_the_layers_it_shares_once() -> None:
    architecture = architecture_from_config(config_of("albert/albert-base-v2"))

    # Attention 4 × (768² + 768), feed-forward 2 × 768 × 3072 + 3072 + 768, two norms of 1,536.
    (stack,) = architecture.stacks
    assert len(stack.layers) == 12
    assert stack.parameters == 4 * (768**2 + 768) + 2 * 768 * 3_072 + 3_072 + 768 + 2 * 1_536
