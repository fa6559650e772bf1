"""How many processes ``llamafactory-cli`` starts, and the memory settings it gives them.

Source: llamafactory 0.9.5 ``launcher.py``: torchrun with FORCE_TORCHRUN or more than one device,
with NNODES (1) times NPROC_PER_NODE (every device); else one process.
"""

from collections.abc import Mapping

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.tuners import at_least_one, refuse
from vramgate.launch.launch import Invocation
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.settings import Settings
from vramgate.launch.words import Word
from vramgate.launch.world import (
    DEVICES,
    PER_NODE,
    EveryDevice,
    World,
    of_variables,
    say_world,
    visible_devices,
)

_ON = frozenset({"1", "y", "true"})
_ALLOCATOR = "LLaMA-Factory's launcher (PYTORCH_CUDA_ALLOC_CONF)"


def say_devices(settings: Settings, invocation: Invocation, draft: Draft) -> None:
    """Say the processes that the launcher starts, one on each device."""
    environment = invocation.environment
    if _is_enabled(environment, "USE_RAY"):
        # ray_num_workers 1: hparams/training_args.py RayArguments.
        workers = at_least_one(settings.whole("ray_num_workers"))
        draft.say(DEVICES, workers or Found(1, "LLaMA-Factory default (ray_num_workers)"))
        return
    forced = _is_enabled(environment, "FORCE_TORCHRUN") or _is_enabled(environment, "USE_MCA")
    visible = visible_devices(environment)
    if not forced and isinstance(visible, Found) and visible.value == 1:
        draft.say(DEVICES, visible)
        draft.say(PER_NODE, visible)
        _check_deepspeed(settings, visible, draft)
        return
    say_world(_world(invocation), draft, environment)
    devices = draft.said(DEVICES)
    is_torchrun = forced or (devices is not None and devices.value > 1)
    if is_torchrun and _is_enabled(environment, "OPTIM_TORCH", default="1"):
        draft.assume("software.expandable_segments", value=True, source=_ALLOCATOR)


def _world(invocation: Invocation) -> World:
    variables = of_variables(invocation.environment, "")
    each = at_least_one(variables.whole("nproc_per_node"))
    return World(
        nodes=_nodes(variables),
        per_node=each or EveryDevice(source=invocation.source, what=invocation.program),
    )


def _nodes(variables: Settings) -> Reading[int]:
    least, most = variables.text("min_nnodes"), variables.text("max_nnodes")
    elastic = isinstance(least, Found) and isinstance(most, Found) and "rdzv_id" in variables
    if elastic and isinstance(least, Found) and isinstance(most, Found):
        return Unseen(
            most.source,
            f"between {least.value} and {most.value} nodes take part",
            "give the number of devices in hardware.devices",
        )
    return at_least_one(variables.whole("nnodes")) or Found(1, "LLaMA-Factory default (NNODES)")


def _check_deepspeed(settings: Settings, visible: Found[int], draft: Draft) -> None:
    deepspeed = settings.text("deepspeed")
    if isinstance(deepspeed, Found):
        # hparams/parser.py: training_args.deepspeed and parallel_mode != DISTRIBUTED.
        refuse(
            draft,
            "deepspeed_without_torchrun",
            "deepspeed with one visible device starts no torchrun, which DeepSpeed needs here",
            "set FORCE_TORCHRUN=1",
            deepspeed,
            visible,
            field="sharding.implementation",
        )


def _is_enabled(environment: Mapping[str, Word], name: str, *, default: str = "0") -> bool:
    word = environment.get(name)
    return (default if word is None else word.text.lower()) in _ON
