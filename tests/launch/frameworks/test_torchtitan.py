"""torchtitan's packaged configurations and models, and configurations that mean harm."""

from collections.abc import Mapping
from typing import Any

import pytest

from vramgate.catalog.models import builtin_models
from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.frameworks.torchtitan.config import packaged_configs, packaged_files
from vramgate.launch.frameworks.torchtitan.models import MODELS
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

SHAPED = {
    name: one for name, one in packaged_configs().items() if "debug" not in one["model"]["flavor"]
}
# Their data_parallel_shard_degree is 1: they are meant for options that raise it.
OF_ONE_DEVICE = ("deepseek_v3_debugmodel_minimal_async_ep", "deepseek_v3_16b_minimal_async_ep")


def read(config: Mapping[str, Any]) -> ParsedLaunch:
    return read_launch(Launch(framework="torchtitan", config=config))


@pytest.mark.parametrize("name", sorted(SHAPED))
def test_a_flavor_is_the_model_of_the_catalog(name: str) -> None:
    facts = SHAPED[name]
    model = MODELS[facts["model"]["name"]][facts["model"]["flavor"]]
    hidden, layers, _vocabulary = facts["shape"]

    config = builtin_models().resolve(model).entry.config

    assert config is not None
    assert (config["hidden_size"], config["num_hidden_layers"]) == (hidden, layers)


@pytest.mark.parametrize("name", sorted(packaged_configs()))
def test_a_packaged_configuration_is_read_without_a_problem(name: str) -> None:
    module, config = name.split()
    devices = 1 if config in OF_ONE_DEVICE else 8
    command = f"torchrun --nproc_per_node {devices} -m torchtitan.train --module {module} --config {config}"

    parsed = read_launch(Launch(command=command))

    unknown = {one.field for one in parsed.unknown}
    assert parsed.problems == ()
    assert ("model.name" in unknown) == ("debug" in packaged_configs()[name]["model"]["flavor"])
    assert unknown <= {"model.name", "loss", "method"}


@pytest.mark.parametrize("name", sorted(packaged_files()))
def test_a_packaged_file_is_read_without_a_problem(name: str) -> None:
    parsed = read_launch(Launch(command=f"NGPU=32 CONFIG_FILE={name} ./run_train.sh"))

    assert parsed.problems == ()
    assert {one.field for one in parsed.unknown} <= {"model.name"}
    assert "micro_batch_size" in parsed.provenance


def test_a_form_dates_the_release_unless_somebody_says_it() -> None:
    command = "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b"

    parsed = read_launch(Launch(command=command, env={"VRAMGATE_STACK": "torchtitan 0.3.1"}))

    assert parsed.job["software"]["stack"] == "torchtitan 0.3.1"


def test_several_optimizers_are_named() -> None:
    command = (
        "torchrun -m torchtitan.train --module qwen3 --config qwen3_debugmodel_moe_param_groups"
    )

    warnings = {one.code for one in read_launch(Launch(command=command)).warnings}

    assert "several_optimizers" in warnings


def test_values_of_any_type_are_read() -> None:
    wrong: list[Any] = [None, [], {}, [{}], "text", -1, 0, 1.5, True, {"a": {"b": []}}]
    keys = {
        "model": ("name", "flavor", "converters"),
        "training": ("local_batch_size", "seq_len", "global_batch_size", "dtype"),
        "parallelism": (
            "data_parallel_replicate_degree",
            "data_parallel_shard_degree",
            "pipeline_parallel_degree",
            "pipeline_parallel_schedule",
            "pipeline_parallel_microbatch_size",
            "fsdp_reshard_after_forward",
        ),
        "activation_checkpoint": ("mode", "selective_ac_option"),
        "optimizer": ("name", "implementation"),
    }

    for value in wrong:
        read(dict.fromkeys(keys, value))
        read({section: dict.fromkeys(names, value) for section, names in keys.items()})
        for section, names in keys.items():
            for name in names:
                read({section: {name: value}})


def test_a_path_below_another_train_configs_is_no_packaged_file() -> None:
    command = "torchrun -m torchtitan.train --job.config_file train_configs/of_mine.toml"

    assert "model.name" in {one.field for one in read_launch(Launch(command=command)).unknown}
