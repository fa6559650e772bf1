"""Names of models as repositories, launch files and clusters write them, and the entry each means.

Expected ids are the base models that the copies' model cards name; sources beside the groups.
"""

import pytest

from tests.catalog.refusals import suggestions
from vramgate.catalog.models import NameMatch, builtin_models
from vramgate.errors import UnknownNameError

MODELS = builtin_models()

# Every model.name of the measured cases (756 rows) and throughput rows (865) that ship with the
# project; ids by the aliases of models.json and, for re-hosted copies, by their model cards.
MEASURED = [
    ("01-ai/Yi-34B", "01-ai/Yi-34B", None),
    ("01-ai/Yi-34B-Chat", "01-ai/Yi-34B", None),
    ("01-ai/Yi-6B-Chat", "01-ai/Yi-6B", None),
    ("NousResearch/Llama-2-70b-hf", "meta-llama/Llama-2-70b-hf", None),
    ("Qwen/Qwen-14B", "Qwen/Qwen-14B", None),
    ("Qwen/Qwen-14B-Chat", "Qwen/Qwen-14B", None),
    ("Qwen/Qwen-14B-Chat-Int4", "Qwen/Qwen-14B", "gptq-int4"),
    ("Qwen/Qwen-1_8B", "Qwen/Qwen-1_8B", None),
    ("Qwen/Qwen-1_8B-Chat", "Qwen/Qwen-1_8B", None),
    ("Qwen/Qwen-1_8B-Chat-Int4", "Qwen/Qwen-1_8B", "gptq-int4"),
    ("Qwen/Qwen-72B-Chat", "Qwen/Qwen-72B", None),
    ("Qwen/Qwen-72B-Chat-Int4", "Qwen/Qwen-72B", "gptq-int4"),
    ("Qwen/Qwen-7B", "Qwen/Qwen-7B", None),
    ("Qwen/Qwen-7B-Chat", "Qwen/Qwen-7B", None),
    ("Qwen/Qwen-7B-Chat-Int4", "Qwen/Qwen-7B", "gptq-int4"),
    ("Qwen/Qwen1.5-7B-Chat-AWQ", "Qwen/Qwen1.5-7B", "awq-int4"),
    ("Qwen/Qwen1.5-MoE-A2.7B", "Qwen/Qwen1.5-MoE-A2.7B", None),
    ("Qwen/Qwen2-7B-Instruct", "Qwen/Qwen2-7B", None),
    ("Qwen/Qwen2.5-14B", "Qwen/Qwen2.5-14B", None),
    ("Qwen/Qwen2.5-3B", "Qwen/Qwen2.5-3B", None),
    ("Qwen/Qwen2.5-3B-Instruct", "Qwen/Qwen2.5-3B", None),
    ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-72B", None),
    ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B", None),
    ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B", "awq-int4"),
    ("Qwen/Qwen3-235B-A22B", "Qwen/Qwen3-235B-A22B", None),
    ("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B", None),
    ("Qwen/Qwen3-30B-A3B-Base", "Qwen/Qwen3-30B-A3B", None),
    ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B", None),
    ("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4B", None),
    ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B", None),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3-Next-80B-A3B-Instruct", None),
    ("Qwen/Qwen3.5-35B-A3B", "Qwen/Qwen3.5-35B-A3B", None),
    ("THUDM/chatglm3-6b", "THUDM/chatglm3-6b", None),
    ("TechxGenus/Meta-Llama-3-8B-GPTQ", "meta-llama/Meta-Llama-3-8B", "gptq-int4"),
    ("TheBloke/Llama-2-70B-GPTQ", "meta-llama/Llama-2-70b-hf", "gptq-int4"),
    ("TheBloke/Mistral-7B-v0.1-GPTQ", "mistralai/Mistral-7B-v0.1", "gptq-int4"),
    ("TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ", "mistralai/Mixtral-8x7B-v0.1", "gptq-int4"),
    (
        "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T",
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        None,
    ),
    ("baichuan-inc/Baichuan2-13B-Chat", "baichuan-inc/Baichuan2-13B-Base", None),
    ("baichuan-inc/Baichuan2-7B-Chat", "baichuan-inc/Baichuan2-7B-Base", None),
    ("bert-large-uncased", "google-bert/bert-large-uncased", None),
    ("bigcode/gpt_bigcode-santacoder", "bigcode/gpt_bigcode-santacoder", None),
    ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "Qwen/Qwen3-8B", None),
    ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3", None),
    ("deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Flash", None),
    ("google/gemma-2-2b", "google/gemma-2-2b", None),
    ("google/gemma-2-9b", "google/gemma-2-9b", None),
    ("google/gemma-2b", "google/gemma-2b", None),
    ("google/gemma-7b", "google/gemma-7b", None),
    ("ibm/PowerLM-3b", "ibm/PowerLM-3b", None),
    ("internlm/internlm-7b", "internlm/internlm-7b", None),
    ("meta-llama/Llama-2-13b-hf", "meta-llama/Llama-2-13b-hf", None),
    ("meta-llama/Llama-2-70b-hf", "meta-llama/Llama-2-70b-hf", None),
    ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf", None),
    ("meta-llama/Llama-3.1-405B", "meta-llama/Llama-3.1-405B", None),
    ("meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-70B", None),
    ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B", None),
    ("meta-llama/Llama-3.2-3B", "meta-llama/Llama-3.2-3B", None),
    ("meta-llama/Meta-Llama-3-70B", "meta-llama/Meta-Llama-3-70B", None),
    ("meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B", None),
    ("meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B", None),
    ("microsoft/Phi-3-mini-4k-instruct", "microsoft/Phi-3-mini-4k-instruct", None),
    ("microsoft/phi-1_5", "microsoft/phi-1_5", None),
    ("microsoft/phi-2", "microsoft/phi-2", None),
    ("mistral-community/Mistral-7B-v0.2", "mistralai/Mistral-7B-v0.1", None),
    ("mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.1", None),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistralai/Mixtral-8x7B-v0.1", None),
    ("moonshotai/Moonlight-16B-A3B", "moonshotai/Moonlight-16B-A3B", None),
    (
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        None,
    ),
    ("openai-mirror/gpt-oss-20b", "openai/gpt-oss-20b", None),
    ("openai/gpt-oss-120b", "openai/gpt-oss-120b", None),
    ("stabilityai/stablelm-base-alpha-3b", "stabilityai/stablelm-base-alpha-3b", None),
    ("tiiuae/falcon-40b", "tiiuae/falcon-40b", None),
    ("tiiuae/falcon-7b", "tiiuae/falcon-7b", None),
    ("unsloth/ERNIE-4.5-21B-A3B-PT", "baidu/ERNIE-4.5-21B-A3B-PT", None),
    ("unsloth/Llama-3.2-3B-Instruct", "meta-llama/Llama-3.2-3B", None),
    ("unsloth/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct", None),
    ("unsloth/Mistral-Small-Instruct-2409", "mistralai/Mistral-Small-Instruct-2409", None),
    ("unsloth/Phi-3-medium-4k-instruct", "microsoft/Phi-3-medium-4k-instruct", None),
    ("unsloth/Phi-3.5-mini-instruct", "microsoft/Phi-3.5-mini-instruct", None),
    ("unsloth/Phi-4", "microsoft/phi-4", None),
    ("unsloth/Qwen2-7B", "Qwen/Qwen2-7B", None),
    ("unsloth/Qwen2.5-7B", "Qwen/Qwen2.5-7B", None),
    ("unsloth/Qwen2.5-Coder-7B-Instruct-bnb-4bit", "Qwen/Qwen2.5-7B", "nf4"),
    ("unsloth/Qwen3-14B", "Qwen/Qwen3-14B", None),
    ("unsloth/Qwen3-14B-Base-unsloth-bnb-4bit", "Qwen/Qwen3-14B", "nf4"),
    ("unsloth/Qwen3-32B", "Qwen/Qwen3-32B", None),
    ("unsloth/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4B", None),
    ("unsloth/Qwen3.5-27B", "Qwen/Qwen3.5-27B", None),
    ("unsloth/gemma-2-9b", "google/gemma-2-9b", None),
    ("unsloth/gpt-oss-20b", "openai/gpt-oss-20b", None),
    ("unsloth/granite-4.0-h-micro", "ibm-granite/granite-4.0-h-micro", None),
    ("unsloth/llama-3-8b-Instruct-bnb-4bit", "meta-llama/Meta-Llama-3-8B", "nf4"),
    ("unsloth/llama-3-8b-bnb-4bit", "meta-llama/Meta-Llama-3-8B", "nf4"),
    ("zai-org/GLM-5", "zai-org/GLM-5", None),
]

# Repositories of the Hugging Face Hub, folders and tags as people pass them to trainers.
REHOSTED = [
    ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "meta-llama/Llama-3.1-8B", "awq-int4"),
    (
        "hugging-quants/Meta-Llama-3.1-70B-Instruct-GPTQ-INT4",
        "meta-llama/Llama-3.1-70B",
        "gptq-int4",
    ),
    ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B", None),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "meta-llama/Llama-3.1-8B", "gptq-int4"),
    ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8", "meta-llama/Llama-3.3-70B-Instruct", "int8"),
    ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-7B", "gptq-int8"),
    ("Qwen/Qwen3-30B-A3B-GPTQ-Int4", "Qwen/Qwen3-30B-A3B", "gptq-int4"),
    ("Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-8B", None),
    ("TheBloke/Llama-2-7B-Chat-GGUF", "meta-llama/Llama-2-7b-hf", None),
    ("TheBloke/CodeLlama-7B-Python-GPTQ", "codellama/CodeLlama-7b-Python-hf", "gptq-int4"),
    ("mlx-community/Llama-3.2-3B-Instruct-4bit", "meta-llama/Llama-3.2-3B", None),
    ("unsloth/gemma-3-4b-it-unsloth-bnb-4bit", "google/gemma-3-4b-pt", "nf4"),
    ("unsloth/Mistral-Nemo-Base-2407-bnb-4bit", "mistralai/Mistral-Nemo-Base-2407", "nf4"),
    ("unsloth/mistral-7b-instruct-v0.3-bnb-4bit", "mistralai/Mistral-7B-v0.3", "nf4"),
    ("unsloth/DeepSeek-R1-GGUF", "deepseek-ai/DeepSeek-R1", None),
    ("meta-llama/Llama-2-7b", "meta-llama/Llama-2-7b-hf", None),
    ("Mixtral-8x22B-Instruct-v0.1-AWQ", "mistralai/Mixtral-8x22B-Instruct-v0.1", "awq-int4"),
    ("llama3.1:8b-instruct-q4_K_M", "meta-llama/Llama-3.1-8B", None),
    ("qwen2.5:7b", "Qwen/Qwen2.5-7B", None),
    ("Llama3-8B", "meta-llama/Meta-Llama-3-8B", None),
    ("https://huggingface.co/google/gemma-2b/tree/main", "google/gemma-2b", None),
    ("hf://google/gemma-2b@main", "google/gemma-2b", None),
]

PATHS = [
    ("/models/llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
    ("./Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
    ("~/models/Qwen2.5-7B-Instruct/", "Qwen/Qwen2.5-7B"),
    ("$MODEL_DIR/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.1"),
    ("D:\\models\\gemma-2-9b-it", "google/gemma-2-9b"),
    ("/data/meta-llama/Llama-3.1-8B/checkpoint-500", "meta-llama/Llama-3.1-8B"),
    ("/models/llama-2-7b.Q4_K_M.gguf", "meta-llama/Llama-2-7b-hf"),
    ("/mnt/llama_3_8b", "meta-llama/Meta-Llama-3-8B"),
]

# Different models that a careless reading would confuse with one in the catalog.
STRANGERS = [
    "Qwen/Qwen2.5-9B",
    "Qwen/Qwen2-8B",
    "meta-llama/Llama-3.1-9B",
    "meta-llama/Llama-3.4-70B",
    "mistralai/Mistral-7B-v0.4",
    "mistralai/Mistral-Small-2402",
    "mistralai/Mixtral-8x8B-v0.1",
    "Qwen/Qwen3-Embedding-8B",
    "meta-llama/Llama-Guard-3-8B",
    "01-ai/Yi-34B-200K",
    "THUDM/glm-4-9b-chat-1m",
    "cognitivecomputations/dolphin-2.9-llama3-8b",
    "TinyLlama/TinyLlama-1.1B-Chat-v0.6",
    "google/t5",
    "FacebookAI/roberta",
    "7b",
    "",
    "/",
]


@pytest.mark.parametrize(("name", "expected", "quantization"), MEASURED)
def test_every_model_of_the_measured_cases_resolves(
    name: str, expected: str, quantization: str | None
) -> None:
    found = MODELS.resolve(name)

    assert (found.entry.name, found.quantization) == (expected, quantization)


@pytest.mark.parametrize(("name", "expected", "quantization"), REHOSTED)
def test_a_copy_resolves_to_its_base_and_the_answer_says_so(
    name: str, expected: str, quantization: str | None
) -> None:
    found = MODELS.resolve(name)

    assert (found.entry.name, found.quantization) == (expected, quantization)
    assert found.entry.name in found.note


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_a_local_path_resolves_by_its_last_component(path: str, expected: str) -> None:
    found = MODELS.resolve(path)

    assert (found.entry.name, found.how) == (expected, NameMatch.PATH)
    assert "local path" in found.note


def test_a_folder_of_the_hub_cache_resolves_to_its_repository() -> None:
    folder = "/scratch/hf/hub/models--Qwen--Qwen2.5-7B/snapshots/" + 40 * "a"

    found = MODELS.resolve(folder)

    assert found.entry.name == "Qwen/Qwen2.5-7B"


@pytest.mark.parametrize("name", STRANGERS)
def test_another_model_is_refused_with_a_way_out(name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        MODELS.resolve(name)

    assert "model.config" in caught.value.hint
    assert len(suggestions(caught.value)) <= 5


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        # The three differ in vocabulary; the model cards name no common size.
        ("mistral-7b-instruct", ("v0.1", "v0.2", "v0.3")),
        ("openai/whisper-large", ("v2", "v3")),
        ("deepseek-ai/DeepSeek", ("V2", "V3")),
    ],
)
def test_a_name_without_its_version_is_refused_with_the_versions(
    name: str, candidates: tuple[str, ...]
) -> None:
    with pytest.raises(UnknownNameError, match="could mean") as caught:
        MODELS.resolve(name)

    suggested = " ".join(suggestions(caught.value))
    assert all(version in suggested for version in candidates)


def test_a_stated_date_outweighs_the_tuning() -> None:
    # GLM-4-9B-0414 is another architecture than glm-4-9b-chat (models.json: glm4 and chatglm).
    assert MODELS.resolve("someone/GLM-4-9B-0414-Chat").entry.name == "zai-org/GLM-4-9B-0414"


def test_the_tuned_entry_wins_for_a_tuned_name() -> None:
    # Its vocabulary is 32 768, the base's 32 000.
    found = MODELS.resolve("mixtral-8x22b-instruct")

    assert found.entry.name == "mistralai/Mixtral-8x22B-Instruct-v0.1"
    assert "v0.1 is the one known" in found.note


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TheBloke/Llama-2-7B-GGUF", "GGUF"),
        ("/m/llama-2-7b.Q4_K_M.gguf", "GGUF Q4_K_M"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "FP8"),
        ("mlx-community/Llama-3.2-3B-Instruct-4bit", "MLX 4 bits"),
        ("someone/Llama-2-7b-EXL2", "EXL2"),
        ("someone/Llama-2-7b-GPTQ-3bit", "GPTQ 3 bits"),
        ("someone/Llama-2-7b-2bit", "2 bits"),
    ],
)
def test_a_format_no_training_method_loads_is_told_in_words_only(name: str, words: str) -> None:
    found = MODELS.resolve(name)

    assert (found.weight_format, found.quantization) == (words, None)


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("someone/Llama-2-7b-nf4", "nf4"),
        ("someone/Llama-2-7b-bnb-8bit", "int8"),
        ("someone/Llama-2-7b-bnb-fp4", "fp4"),
        ("someone/Llama-2-7b-8bit", "int8"),
        ("someone/Llama-2-7b-4bit", "nf4"),
        ("someone/Llama-2-7b-mxfp4", "mxfp4"),
    ],
)
def test_a_width_is_read_as_the_method_that_usually_stands_behind_it(
    name: str, quantization: str
) -> None:
    assert MODELS.resolve(name).quantization == quantization


def test_an_assumed_quantisation_method_is_said() -> None:
    assert "assumed" in MODELS.resolve("someone/Llama-2-7b-4bit").note
