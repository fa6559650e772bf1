"""Counts against the catalog: transformers' own, instantiated on the meta device, for every row."""

from typing import Any

import pytest

from tests.costmodel.families.catalog_rows import CATALOG
from vramgate.costmodel.families import architecture_from_config

ROWS = pytest.mark.parametrize("row", CATALOG, ids=[row["name"] for row in CATALOG])


@ROWS
def test_parameters_equal_the_catalogs(row: dict[str, Any]) -> None:
    architecture = architecture_from_config(row["config"])

    assert architecture.parameters == row["parameters"]


@ROWS
def test_a_known_model_is_of_a_known_family(row: dict[str, Any]) -> None:
    architecture = architecture_from_config(row["config"])

    assert architecture.family != "generic"
    assert architecture.model_type == row["config"]["model_type"]


@pytest.mark.parametrize(
    "row",
    [row for row in CATALOG if "active_parameters" in row],
    ids=[row["name"] for row in CATALOG if "active_parameters" in row],
)
def test_active_parameters_equal_the_catalogs(row: dict[str, Any]) -> None:
    architecture = architecture_from_config(row["config"])

    assert architecture.active_parameters == row["active_parameters"]


@ROWS
def test_parts_and_modules_add_up_to_the_total(row: dict[str, Any]) -> None:
    architecture = architecture_from_config(row["config"])

    assert sum(architecture.parameters_by_part().values()) == architecture.parameters
    assert sum(m.parameters for m in architecture.modules()) == architecture.parameters


@ROWS
def test_linear_layers_state_the_size_of_their_weight(row: dict[str, Any]) -> None:
    architecture = architecture_from_config(row["config"])

    for module in architecture.modules():
        if module.is_linear:
            assert module.weight == module.in_features * module.out_features, module.path
            assert module.bias in {0, module.out_features}, module.path


@ROWS
def test_paths_inside_a_block_are_distinct(row: dict[str, Any]) -> None:
    architecture = architecture_from_config(row["config"])

    for stack in architecture.stacks:
        for block in stack.blocks:
            paths = [module.path for module in block.modules]
            assert len(paths) == len(set(paths))
