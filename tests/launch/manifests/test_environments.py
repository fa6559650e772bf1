"""What a container sees: variables, their expansion, images."""

import pytest

from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.launch import Launch
from vramgate.launch.manifests.images import stack_of_image
from vramgate.launch.read import read_launch


def model(
    variables: str, words: str = '"$(MODEL)"', env: dict[str, str] | None = None
) -> ParsedLaunch:
    manifest = f"""
kind: Pod
metadata: {{labels: {{size: 8B}}, namespace: research}}
spec:
  containers:
  - name: run
    {variables}
    command: [python, run_clm.py, --model_name_or_path, {words}]
"""
    return read_launch(Launch(manifest=manifest, env=env or {}))


# kubernetes third_party/forked/golang/expansion/expand_test.go.
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("$(A)", "a"),
        ("x-$(A)-$(B)", "x-a-b"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$(UNDEFINED)", "$(UNDEFINED)"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("$(C)", "ab"),
    ],
)
def test_references_are_expanded_as_the_kubelet_does(word: str, expected: str) -> None:
    variables = "env: [{name: A, value: a}, {name: B, value: b}, {name: C, value: $(A)$(B)}]"

    assert model(variables, f'"{word}"').job["model"]["name"] == expected


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("secretKeyRef: {name: ours, key: a}", "Secret ours"),
        ("configMapKeyRef: {name: ours, key: a}", "ConfigMap ours"),
        ("fieldRef: {fieldPath: status.podIP}", "status.podIP"),
        ("resourceFieldRef: {resource: limits.cpu}", "resource"),
        ("fileKeyRef: {volumeName: a}", "not read"),
    ],
)
def test_a_value_out_of_sight_is_unknown_with_its_reason(source: str, reason: str) -> None:
    parsed = model(f"env: [{{name: MODEL, valueFrom: {{{source}}}}}]")

    unknown = {one.field: one for one in parsed.unknown}
    assert "name" not in parsed.job.get("model", {})
    assert reason in unknown["model.name"].reason
    assert "launch.env" in unknown["model.name"].hint


def test_variables_of_an_unseen_config_map_may_be_any() -> None:
    parsed = model("envFrom: [{configMapRef: {name: ours}}]")

    assert "model.name" in {one.field for one in parsed.unknown}


def test_what_the_manifest_says_counts_before_what_is_given_beside() -> None:
    given = {"MODEL": "b/b"}

    assert model("env: [{name: MODEL, value: a/a}]", env=given).job["model"]["name"] == "a/a"
    assert model("env: []", env=given).job["model"]["name"] == "b/b"


def test_labels_and_the_namespace_are_the_same_in_every_pod() -> None:
    label = "env: [{name: MODEL, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['size']\"}}}]"
    namespace = "env: [{name: MODEL, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]"

    assert model(label).job["model"]["name"] == "8B"
    assert model(namespace).job["model"]["name"] == "research"


# Tags in public use; their forms: axolotl docs/docker.qmd, ms-swift and llm-foundry READMEs, AWS's
# deep learning containers, Docker Hub's pages of PyTorch, ROCm, Unsloth, LLaMA-Factory.
@pytest.mark.parametrize(
    ("image", "stack"),
    [
        ("pytorch/pytorch:2.4.0-cuda12.1-cudnn9-devel", "torch 2.4.0"),
        ("docker.io/pytorch/pytorch:2.4.0-cuda12.1-cudnn9-devel@sha256:0123", "torch 2.4.0"),
        ("huggingface/transformers-pytorch-gpu:4.41.2", "transformers 4.41.2"),
        (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-training:2.1.0-transformers4.36.0"
            "-gpu-py310-cu121-ubuntu20.04",
            "torch 2.1.0 / transformers 4.36.0",
        ),
        (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-ec2",
            "torch 2.3.0",
        ),
        ("axolotlai/axolotl:0.9.2", "axolotl 0.9.2"),
        ("axolotlai/axolotl:0.19.0-py3.12-cu130-2.13.0", "axolotl 0.19.0 / torch 2.13.0"),
        ("axolotlai/axolotl:main-20260315-py3.11-cu128-2.9.1", "torch 2.9.1"),
        ("axolotlai/axolotl-cloud-uv:main-py3.12-cu130-2.10.0-vllm", "torch 2.10.0"),
        ("axolotlai/axolotl:main-latest", None),
        ("unsloth/unsloth:2026.1.2-pt2.9.0-cu12.8-update", "unsloth 2026.1.2 / torch 2.9.0"),
        ("mosaicml/pytorch:2.7.0_cu128-python3.12-ubuntu22.04", "torch 2.7.0"),
        ("rocm/pytorch:rocm6.1_ubuntu22.04_py3.10_pytorch_2.1.2", "torch 2.1.2"),
        ("hiyouga/llamafactory:0.9.3", "llamafactory 0.9.3"),
        (
            "modelscope-registry.us-west-1.cr.aliyuncs.com/modelscope-repo/modelscope:ubuntu22.04-cuda12.4.0"
            "-py310-torch2.6.0-vllm0.8.3-modelscope1.25.0-swift3.3.0.post1",
            "torch 2.6.0 / ms-swift 3.3.0",
        ),
        ("mosaicml/llm-foundry:2.3.1_cu121-latest", "torch 2.3.1"),
        ("rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0", "torch 2.3.0"),
        ("pytorch/pytorch:latest", None),
        ("pytorch/pytorch", None),
        ("ours/pytorch:2.4.0-cuda12.1", None),
        ("not/pytorch/pytorch2:2.4.0-cuda12.1", None),
        ("", None),
        ("a:" * 400, None),
    ],
)
def test_a_tag_that_names_versions_is_the_stack(image: str, stack: str | None) -> None:
    assert stack_of_image(image) == stack


def test_devices_in_our_words_are_known_before_the_command_is_read() -> None:
    manifest = """
kind: Pod
metadata: {annotations: {vramgate.dev/devices: "16", vramgate.dev/devices-per-node: "8"}}
spec:
  containers:
  - name: run
    command: [python, pretrain_gpt.py, --num-layers, "32", --hidden-size, "4096", --num-attention-heads, "32"]
    args: [--micro-batch-size, "2", --global-batch-size, "256", --seq-length, "4096"]
"""

    job = read_launch(Launch(manifest=manifest)).job

    # Megatron-LM: 256 sequences over 16 ranks of 2 are 8 micro-batches.
    assert job["gradient_accumulation_steps"] == 8
    assert job["hardware"]["devices"] == 16
