"""Secrets planted in many places are in nothing that leaves, and in nothing that is kept."""

import dataclasses
import enum
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reporter.standin import StandIn, standing_in
from tests.reporter.test_session import Meter
from vramgate.reporter import report_peaks
from vramgate.reporter.callbacks.transformers import TransformersHooks
from vramgate.reporter.disclosure import framework_config, own_environment
from vramgate.reporter.redaction import filtered_arguments, masked, names_a_secret

HF = "hf_PlantedPlantedPlanted00"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJlLXBsYW50ZWQ"
FORMS = [
    "vgr_01900000-0000-7000-8000-000000000001_AAAAAGsODgB0ZWFtLWH1aZQsEocv-VbCK9LhEGxm_jP",
    "vg_" + "ab" * 8 + "_" + "cd" * 26,
    HF,
    "sk-plantedplanted0000",
    "sk-ant-api03-planted_planted-0000",
    "ghp_PlantedPlantedPlanted00000000000000",
    "github_pat_PlantedPlanted0000000",
    "glpat-plantedplanted00",
    "AKIAPLANTEDPLANTED00",
    "xoxb-planted-0000-planted",
    "AIzaPlantedPlantedPlantedPlanted0000000",
    "nvapi-plantedplantedplanted000",
    JWT,
    "0123456789abcdef0123456789abcdef01234567",
]
WORDS = ["hunter2", "correct-horse", "swordfish", "opensesame"]


@dataclasses.dataclass
class FakeArguments:
    """Fields as transformers and TRL have them, and some that they do not have."""

    per_device_train_batch_size: int = 4
    bf16: bool = True
    learning_rate: float = 5e-5
    warmup_ratio: float = float("nan")
    optim: enum.Enum = enum.Enum("Optim", {"ADAMW": "adamw_torch_fused"}).ADAMW  # type: ignore[attr-defined]
    gradient_checkpointing: bool = True
    gradient_checkpointing_kwargs: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"use_reentrant": False, "note": "hunter2", "api_key": "swordfish"}
    )
    hub_token: str = HF
    push_to_hub_token: str = "opensesame"  # noqa: S105 planted
    run_name: str = "hunter2"
    my_unknown_option: str = "correct-horse"
    vllm_server_base_url: str = "http://user:swordfish@vllm"
    fsdp_transformer_layer_cls_to_wrap: str = f"Block {HF}"
    deepspeed: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {
            "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
            "train_micro_batch_size_per_gpu": "auto",
            "wandb": {"enabled": True, "team": "hunter2", "key": "swordfish"},
            "hunter2": 1,
        }
    )


class FakeConfig:
    def to_dict(self) -> dict[str, Any]:
        return {
            "hidden_size": 64,
            "pad_token_id": 0,
            "num_key_value_heads": 2,
            "auth_token": "swordfish",
            "_name_or_path": f"https://user:hunter2@hub.example/{HF}",
            "hub_url": "https://user:hunter2@hub.example/x",
        }


class FakeModel:
    config = FakeConfig()

    def parameters(self) -> list[object]:
        return []

    def modules(self) -> list[object]:
        return []


@pytest.fixture
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "HF_TOKEN": HF,
        "WANDB_API_KEY": FORMS[-1],
        "AWS_SECRET_ACCESS_KEY": "swordfish",
        "DB_PASSWORD": "hunter2",
        "HARMLESS_NAME": "opensesame",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "WORLD_SIZE": "2",
        "PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:True,{HF}",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    arguments = [
        "train.py", "--hub_token", "hunter2", "--api-key=swordfish", "--lr", "1e-4",
        "+wandb.api_key=opensesame", "--db", "postgres://user:hunter2@db/x", "--password",
        "-correct-horse", "--num_key_value_heads", "8", "AWS_SECRET_ACCESS_KEY=swordfish", *FORMS,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", arguments)


def _assert_clean(text: bytes) -> None:
    for secret in (*FORMS, *WORDS):
        assert secret.encode() not in text, secret


def _train_and_fail(url: str) -> None:
    hooks = TransformersHooks(
        run_id="r1", url=url, memory=Meter(5), labels={"note": HF, HF: "x"}, exit_seconds=1.0
    )
    hooks.on_train_begin(FakeArguments(), object(), object(), model=FakeModel())
    for _ in range(3):
        hooks.on_step_end(FakeArguments(), object(), object())
    assert hooks.reporter is not None
    hooks.reporter.finish(RuntimeError(f"CUDA out of memory. {' '.join(FORMS)} http://a:hunter2@b"))


@pytest.mark.usefixtures("_planted")
def test_secrets_are_neither_on_the_wire_nor_on_disk(service: StandIn, spool_folder: Path) -> None:
    _train_and_fail(service.url)
    report = service.wait_for(1)[-1]
    _assert_clean(service.everything)
    launch = report["launch"]
    assert launch["framework"] == "transformers"
    assert launch["config"] == {
        "per_device_train_batch_size": 4,
        "bf16": True,
        "learning_rate": 5e-5,
        "optim": "adamw_torch_fused",
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "fsdp_transformer_layer_cls_to_wrap": "Block [masked]",
        "deepspeed": {
            "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
            "train_micro_batch_size_per_gpu": "auto",
        },
    }
    assert launch["env"]["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert launch["env"]["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True,[masked]"
    assert launch["command"][:6] == [
        "train.py", "--hub_token", "[masked]", "--api-key=[masked]", "--lr", "1e-4",
    ]  # fmt: skip
    assert launch["command"][11:13] == ["--num_key_value_heads", "8"]
    assert report["live_model"]["config"] == {
        "hidden_size": 64,
        "pad_token_id": 0,
        "num_key_value_heads": 2,
        "hub_url": "https://[masked]@hub.example/x",
    }
    with standing_in("error") as broken:
        _train_and_fail(broken.url)
        _assert_clean(broken.everything)
    kept = [path.read_bytes() for path in spool_folder.iterdir()]
    assert kept
    _assert_clean(b"".join(kept))


@pytest.mark.usefixtures("_planted")
def test_what_the_caller_wrote_himself_is_searched_too(service: StandIn) -> None:
    launch = {
        "framework": "axolotl",
        "command": "axolotl train x.yml --hub_token hunter2",
        "env": {"HF_TOKEN": HF, "RANK": "0"},
        "config": {"base_model": "a/b", "wandb_api_key": "swordfish", "lora_r": 8},
        "files": {
            "x.yml": "base_model: a/b\nhub_token: hunter2\n",
            "ds.json": json.dumps({"stage": 2, "password": "swordfish"}),
        },
    }
    job = {"model": {"name": f"https://me:hunter2@hub/{HF}"}, "secret": "swordfish"}
    with report_peaks("r1", launch=launch, url=service.url, memory=Meter(1)):
        pass
    with report_peaks(HF, job=job, url=service.url, memory=Meter(1)):
        pass
    first, second = service.wait_for(2)
    _assert_clean(service.everything)
    assert first["launch"]["env"] == {"RANK": "0"}
    assert first["launch"]["config"] == {"base_model": "a/b", "lora_r": 8}
    assert first["launch"]["files"]["x.yml"] == "base_model: a/b\nhub_token: [masked]\n"
    assert second["run_id"].startswith("masked-")


@pytest.mark.parametrize("token", FORMS)
def test_every_known_form_is_masked_wherever_it_stands(token: str) -> None:
    for text in (token, f"a {token} b", f'"{token}"', f"--x={token}", f"https://h/?t={token}"):
        assert token not in masked(text)


@pytest.mark.parametrize(
    "text",
    ["meta-llama/Llama-3.1-8B", "/data/run-7/checkpoint-100", "sdpa", "--sk-learn", "hf_home",
     "sha256:" + "ab" * 32, "2026-11-29T10:00:00Z", "q_proj,v_proj", "paged_adamw_8bit"],
)  # fmt: skip
def test_ordinary_words_are_left_alone(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "num_key_value_heads", "eos_token_id", "tokenizer", "keys_per_head_count",
     "--seq-length", "passkey_retrieval_length", "monkey", "author"],
)  # fmt: skip
def test_names_that_only_resemble_a_secret_keep_their_values(name: str) -> None:
    assert not names_a_secret(name)


def test_the_environment_is_an_allow_list() -> None:
    assert own_environment({"PATH": "/bin", "NEW_SECRET": "x", "WORLD_SIZE": "8"}) == {
        "WORLD_SIZE": "8"
    }


def test_a_flag_after_a_secret_flag_is_not_taken_for_its_value() -> None:
    given = ["--use-auth", "--batch", "4", "--token", "x", "y"]
    assert filtered_arguments(given) == ["--use-auth", "--batch", "4", "--token", "[masked]", "y"]


def test_patterns_of_adapter_ranks_keep_the_names_of_modules() -> None:
    config = {"r": 8, "rank_pattern": {"layers.0.q_proj": 4, "x": "text"}, "secret": "s"}
    kept = framework_config(config, {"r", "rank_pattern"})
    assert kept == {"r": 8, "rank_pattern": {"layers.0.q_proj": 4}}


@pytest.mark.parametrize(
    "cut", ["https://me:hunter2...", "https://me:hunter2…", "no 'git+ssh://me:hunter2h...' here"]
)
def test_a_login_is_masked_also_where_its_text_was_cut(cut: str) -> None:
    assert "hunter2" not in masked(cut)
    assert masked("see https://hub.example/a...") == "see https://hub.example/a..."
