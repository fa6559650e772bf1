"""FSDP's strategies and units, by accelerate's names."""

import pytest

from vramgate.launch.draft import Draft, ParsedLaunch
from vramgate.launch.files import Files
from vramgate.launch.frameworks.fsdp import say_fsdp
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found
from vramgate.launch.settings import of_document


def _said(before: Draft | None = None, /, **values: object) -> ParsedLaunch:
    draft = before or Draft()
    settings = of_document({f"fsdp_{name}": one for name, one in values.items()}, "a.yaml")
    say_fsdp(settings, Context(draft=draft, files=Files()))
    return draft.finished()


@pytest.mark.parametrize(
    ("strategy", "stage"),
    [
        ("FULL_SHARD", 3),
        ("full_shard", 3),
        (1, 3),
        ("SHARD_GRAD_OP", 2),
        (2, 2),
        ("NO_SHARD", 0),
        (3, 0),
    ],
)
def test_a_strategy_is_a_stage(strategy: object, stage: int) -> None:
    assert _said(sharding_strategy=strategy).job["sharding"]["zero_stage"] == stage


@pytest.mark.parametrize(("strategy", "stage"), [("HYBRID_SHARD", 3), (5, 2)])
def test_hybrid_strategies_shard_inside_a_node(strategy: object, stage: int) -> None:
    draft = Draft()
    draft.say("hardware.devices_per_node", Found(8, "request"))

    sharding = _said(draft, sharding_strategy=strategy).job["sharding"]

    assert (sharding["zero_stage"], sharding["shard_group_size"]) == (stage, 8)


def test_a_hybrid_strategy_on_nodes_of_unknown_size_leaves_the_group_unknown() -> None:
    parsed = _said(sharding_strategy="HYBRID_SHARD")

    assert [one.field for one in parsed.unknown] == ["sharding.shard_group_size"]


@pytest.mark.parametrize("said", ["FULL", 0, 6, [1]])
def test_a_strategy_that_is_none_is_reported(said: object) -> None:
    parsed = _said(sharding_strategy=said, auto_wrap_policy="TRANSFORMER_BASED_WRAP")
    assert [one.rule for one in parsed.problems] == ["not_a_value"]


@pytest.mark.parametrize(("reshard", "stage"), [(True, 3), ("true", 3), (False, 2), ("no", 2)])
def test_version_2_keeps_or_frees_what_it_gathered(reshard: object, stage: int) -> None:
    sharding = _said(version=2, reshard_after_forward=reshard).job["sharding"]

    assert sharding["implementation"] == "fsdp2"
    assert (sharding["zero_stage"], sharding["reshard_after_forward"]) == (stage, stage == 3)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"version": 1, "reshard_after_forward": "SHARD_GRAD_OP"}, "fsdp_reshard_ignored"),
        ({"version": 2, "sharding_strategy": "NO_SHARD"}, "fsdp_strategy_ignored"),
        (
            {"version": 2, "auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 10},
            "fsdp_size_based_wrap",
        ),
    ],
)
def test_what_has_no_effect_is_warned_of(values: dict[str, object], code: str) -> None:
    assert code in {warning.code for warning in _said(None, **values).warnings}


@pytest.mark.parametrize(
    "values",
    [
        {"auto_wrap_policy": "NO_WRAP"},
        {"auto_wrap_policy": "no_wrap"},
        {"auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 0},
        {},
    ],
)
def test_without_units_the_model_is_one_and_the_launch_invalid(values: dict[str, object]) -> None:
    parsed = _said(None, **values)
    assert parsed.job["sharding"]["wrap"] == "none"
    assert [one.rule for one in parsed.problems] == ["fsdp_without_wrap_policy"]


def test_without_sharding_no_units_are_needed() -> None:
    assert _said(None, sharding_strategy="NO_SHARD").problems == ()


def test_offload_moves_parameters_and_states() -> None:
    sharding = _said(offload_params=True).job["sharding"]

    assert (sharding["offload_parameters"], sharding["offload_optimizer"]) == ("cpu", "cpu")


def test_what_was_sharded_before_gives_way() -> None:
    draft = Draft()
    draft.say("sharding.offload_fraction", Found(0.5, "ds.json"))

    assert "offload_fraction" not in _said(draft, version=2).job["sharding"]
