"""Laws over all configs: one builds or is refused as an invalid config, whatever stands in it."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.costmodel.families.catalog_rows import CATALOG
from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.costmodel.families import architecture_from_config
from vramgate.errors import InvalidModelConfigError

KEYS = sorted({key for row in CATALOG for key in row["config"]})
TYPES = sorted({row["config"]["model_type"] for row in CATALOG})
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=0, max_value=64)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(TYPES)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)
MUTATIONS = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4)


def built_or_refused(config: dict[str, Any]) -> ModelArchitecture | None:
    """Return the architecture, or None where the config was refused with a pointer to the key."""
    refusal = None
    try:
        return architecture_from_config(config)
    except InvalidModelConfigError as error:
        refusal = error
    assert refusal.fields
    assert all(field.pointer.startswith("/model/config") for field in refusal.fields)
    return None


def holds_together(architecture: ModelArchitecture) -> bool:
    """Return whether the counts agree with each other and stay inside all bounds."""
    total = architecture.parameters
    active = architecture.active_parameters
    return (
        sum(architecture.parameters_by_part().values()) == total
        and 0 < total <= 10**14
        and (active is None or 0 < active <= total)
        and all(math.isfinite(b.residual_dropout) for s in architecture.stacks for b in s.blocks)
    )


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), JSON, max_size=12))
def test_any_object_builds_or_is_refused(config: dict[str, Any]) -> None:
    architecture = built_or_refused(config)

    assert architecture is None or holds_together(architecture)


@given(st.sampled_from(CATALOG), MUTATIONS)
def test_a_published_config_with_changes_builds_or_is_refused(
    row: dict[str, Any], changes: dict[str, Any]
) -> None:
    architecture = built_or_refused({**row["config"], **changes})

    assert architecture is None or holds_together(architecture)


@given(st.sampled_from(CATALOG), st.data())
def test_a_published_config_with_a_wrong_nested_key_builds_or_is_refused(
    row: dict[str, Any], data: st.DataObject
) -> None:
    config = dict(row["config"])
    for name in ("text_config", "vision_config", "attn_config", "ffn_config"):
        if name in config:
            key = data.draw(st.sampled_from(sorted(config[name])))
            config[name] = {**config[name], key: data.draw(JSON)}

    architecture = built_or_refused(config)

    assert architecture is None or holds_together(architecture)


@given(st.sampled_from(CATALOG), st.data())
def test_a_published_config_without_a_key_builds_or_is_refused(
    row: dict[str, Any], data: st.DataObject
) -> None:
    config = dict(row["config"])
    for key in data.draw(st.sets(st.sampled_from(sorted(config)), min_size=1, max_size=3)):
        del config[key]

    architecture = built_or_refused(config)

    assert architecture is None or holds_together(architecture)


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 8), st.integers(1, 4096))
def test_a_llama_of_any_size_has_the_parameters_of_the_formula(
    layers: int, kv_heads: int, group: int, intermediate: int
) -> None:
    heads, head_dim, vocabulary = kv_heads * group, 64, 1000
    hidden = heads * head_dim

    architecture = architecture_from_config(
        {
            "model_type": "llama",
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "intermediate_size": intermediate,
            "vocab_size": vocabulary,
        }
    )

    attention = 2 * hidden * hidden + 2 * hidden * kv_heads * head_dim
    layer = attention + 3 * hidden * intermediate + 2 * hidden
    assert architecture.parameters == layers * layer + 2 * vocabulary * hidden + hidden
