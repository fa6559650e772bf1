"""How many processes ``swift`` starts, and the devices that each of them spreads a model over.

Sources: ms-swift 4.6.0 ``cli/main.py`` (torchrun with NPROC_PER_NODE or NNODES, else one process),
``utils/env.py`` (``is_mp``: more devices than processes are spread over by device_map).
"""

from collections.abc import Mapping

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.tuners import at_least_one, refuse
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Settings
from vramgate.launch.words import Word
from vramgate.launch.world import (
    DEVICES,
    PER_NODE,
    World,
    of_variables,
    say_world,
    visible_devices,
)


def say_devices(settings: Settings, environment: Mapping[str, Word], draft: Draft) -> None:
    """Say the devices of a run."""
    variables = of_variables(environment, "")
    each, nodes = (at_least_one(variables.whole(name)) for name in ("nproc_per_node", "nnodes"))
    visible = visible_devices(environment)
    processes = each.value if isinstance(each, Found) else 1
    if isinstance(visible, Found) and visible.value > processes:
        count = nodes.value if isinstance(nodes, Found) else 1
        draft.say(PER_NODE, visible)
        draft.say(DEVICES, Found(visible.value * count, visible.source))
        _say_spread(settings, visible, processes, draft)
        return
    if each is None and nodes is None:
        if visible is not None:
            draft.say(DEVICES, visible)
            draft.say(PER_NODE, visible)
        return
    one = Found(1, "torchrun default (nproc_per_node)")
    alone = Found(1, "torchrun default (nnodes)")
    say_world(World(nodes=nodes or alone, per_node=each or one), draft, environment)


def _say_spread(settings: Settings, visible: Found[int], processes: int, draft: Draft) -> None:
    share = visible.value // processes
    draft.warn(
        "device_map",
        f"{visible.value} devices for {processes} processes: ms-swift lays the model's layers over"
        f" {share} devices (device_map), which is not estimated.",
    )
    draft.unknown(
        "parallelism",
        Unseen(
            visible.source,
            f"one process lays the layers over {share} devices by device_map",
            "set NPROC_PER_NODE to the number of devices",
        ),
    )
    for name in ("deepspeed", "fsdp"):
        engine = settings.text(name)
        if isinstance(engine, Found):
            # arguments/sft_args.py: _init_deepspeed, _init_fsdp.
            refuse(
                draft,
                "engine_with_device_map",
                f"{name} with {visible.value} devices for {processes} processes: it has no"
                " device_map",
                "set NPROC_PER_NODE to the number of devices",
                engine,
                visible,
                field="sharding.implementation",
            )
