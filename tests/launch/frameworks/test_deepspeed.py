"""DeepSpeed's configuration, wherever it comes from."""

import base64
import json
from typing import Any

import pytest

from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.draft import Draft, ParsedLaunch
from vramgate.launch.files import Files
from vramgate.launch.frameworks.deepspeed.file import without_comments
from vramgate.launch.frameworks.deepspeed.reader import say_deepspeed, settle_precision
from vramgate.launch.launch import Context, Launch
from vramgate.launch.read import read_launch
from vramgate.launch.reading import Found
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.words import Word

ZERO_2 = {"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}


def _said(
    said: object, trainer: dict[str, object] | None = None, files: dict[str, str] | None = None
) -> ParsedLaunch:
    draft = Draft()
    context = Context(draft=draft, files=Files(files))
    words = {
        name: Setting(said=value, source=f"args --{name}")
        for name, value in (trainer or {}).items()
    }
    setting = Setting(said=said, source="args[1] --deepspeed")
    say_deepspeed(setting, context, trainer=Settings(words))
    return draft.finished()


def _words(text: str, *unresolved: str) -> tuple[Word, ...]:
    return (Word(text=text, source="args[2]", unresolved=unresolved),)


@pytest.mark.parametrize(
    "said",
    [
        ZERO_2,
        "ds.json",
        _words("ds.json"),
        _words("/mnt/configs/ds.json"),
        _words(json.dumps(ZERO_2)),
        _words(base64.urlsafe_b64encode(json.dumps(ZERO_2).encode()).decode()),
    ],
    ids=["object", "text", "word", "path", "json", "base64"],
)
def test_a_configuration_is_read_wherever_it_stands(said: object) -> None:
    parsed = _said(said, {"bf16": True}, files={"ds.json": json.dumps(ZERO_2)})

    assert parsed.job["sharding"] == {"implementation": "deepspeed", "zero_stage": 2}
    assert parsed.job["precision"]["master_weights"] is True


def test_every_value_has_its_place_in_the_file() -> None:
    parsed = _said("ds.json", files={"ds.json": json.dumps(ZERO_2)})

    place = parsed.provenance["sharding.zero_stage"].source
    assert place == "ds.json: zero_optimization.stage"


def test_a_place_in_an_object_starts_with_the_objects_own() -> None:
    parsed = _said(ZERO_2)

    place = parsed.provenance["sharding.zero_stage"].source
    assert place == "args[1] --deepspeed.zero_optimization.stage"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ds_z3_offload.json", "ZeRO stage 3 with offload"),
        ("conf/zero2.json", "ZeRO stage 2"),
        ("stage1.json", "ZeRO stage 1"),
    ],
)
def test_a_telling_name_is_a_hint_and_no_more(name: str, hint: str) -> None:
    parsed = _said(_words(name), {"bf16": True})

    (unknown,) = parsed.unknown
    assert unknown.field == "sharding"
    assert hint in unknown.hint
    assert "zero_stage" not in parsed.job["sharding"]


def test_a_name_out_of_sight_says_which_variable_is_missing() -> None:
    parsed = _said(_words("$DS_CONFIG", "$DS_CONFIG"), {})

    assert "DS_CONFIG" in parsed.unknown[0].hint


@pytest.mark.parametrize("said", [7, True, [1]])
def test_what_is_no_configuration_is_reported(said: object) -> None:
    assert [one.rule for one in _said(said).problems] == ["not_a_value"]


@pytest.mark.parametrize("text", ["{", "[1]", "{'a': 1}"])
def test_a_file_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(UnreadableLaunchError):
        _said("ds.json", files={"ds.json": text})


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('{"a": "x # y // z /* w */"}', '{"a": "x # y // z /* w */"}'),
        ('{"a": "\\"#"} # b', '{"a": "\\"#"} '),
        ("{/* a\nb */}", "{}"),
        ("{/* a", "{"),
        ("{} // a\n", "{} \n"),
    ],
)
def test_comments_go_and_texts_stay(text: str, plain: str) -> None:
    assert without_comments(text) == plain


def test_a_packaged_file_of_another_framework_is_not_taken_for_it() -> None:
    parsed = _said(_words("deepspeed_configs/zero2.json"), {})

    assert [one.field for one in parsed.unknown] == ["sharding"]


def test_a_sent_file_goes_before_a_packaged_one_of_its_name() -> None:
    name = "examples/deepspeed/ds_z3_config.json"

    parsed = _said(_words(name), {}, {name: json.dumps(ZERO_2)})

    assert parsed.job["sharding"]["zero_stage"] == 2


def test_packaged_values_are_assumptions() -> None:
    parsed = _said(_words("examples/deepspeed/ds_z3_config.json"), {})

    place = "LLaMA-Factory examples/deepspeed/ds_z3_config.json: zero_optimization.stage"
    assert ("sharding.zero_stage", 3, place) in [
        (one.field, one.value, one.source) for one in parsed.assumptions
    ]


def _config(**zero: object) -> dict[str, Any]:
    return {"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero}


def _warned(config: dict[str, Any]) -> set[str]:
    parsed = read_launch(Launch(framework="deepspeed", config=config))
    return {warning.code for warning in parsed.warnings}


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (_config(stage=2, offload_param={"device": "cpu"}), "deepspeed_offload_ignored"),
        (_config(stage=1, offload_optimizer={"device": "nvme"}), "deepspeed_nvme_is_cpu"),
        (_config(stage=3, zero_hpz_partition_size=8), "zero_plus_plus_second_copy"),
        (_config(stage=3, zero_quantized_gradients=True), "zero_plus_plus_quantized"),
        (_config(stage=3, mics_shard_size=8), "deepspeed_key_removed"),
        ({**_config(stage=1), "amp": {"enabled": True}}, "deepspeed_key_removed"),
        ({**_config(stage=1), "pipeline": {"stages": 2}}, "pipeline_in_code"),
        (
            {**_config(stage=1), "activation_checkpointing": {"partition_activations": True}},
            "deepspeed_activation_checkpointing",
        ),
        (
            {**_config(stage=1), "bf16": {"enabled": True, "bf16_master_weights_and_grads": True}},
            "low_precision_master",
        ),
    ],
)
def test_what_misleads_is_warned_of(config: dict[str, Any], code: str) -> None:
    assert code in _warned(config)


def test_mics_groups_are_groups_of_shards() -> None:
    parsed = read_launch(Launch(framework="deepspeed", config=_config(stage=3, mics_shard_size=8)))

    assert parsed.job["sharding"]["shard_group_size"] == 8


def test_an_autocast_of_the_trainers_becomes_a_master_copy() -> None:
    draft = Draft()
    draft.say("sharding.implementation", Found("deepspeed", "a"))
    draft.say("precision.compute", Found("bf16", "args --bf16"))
    draft.say("precision.autocast", Found(value=True, source="args --bf16"))
    draft.say("precision.weights", Found("fp32", "args --dtype"))

    settle_precision(draft)

    precision = draft.finished().job["precision"]
    assert precision["weights"] == "bf16"
    assert precision["master_weights"] is True
    assert precision["autocast"] is False


def test_deepspeeds_own_autocast_stays() -> None:
    config = {**_config(stage=1), "torch_autocast": {"enabled": True, "dtype": "float16"}}

    parsed = read_launch(Launch(framework="deepspeed", config=config))

    precision = parsed.job["precision"]
    assert (precision["weights"], precision["compute"]) == ("fp32", "fp16")
    assert precision["autocast"] is True


def test_without_deepspeed_precision_stays_as_it_is() -> None:
    draft = Draft()
    draft.say("precision.compute", Found("bf16", "args --bf16"))
    draft.say("precision.autocast", Found(value=True, source="args --bf16"))

    settle_precision(draft)

    assert draft.finished().job["precision"] == {"compute": "bf16", "autocast": True}
