"""The optimizer of a job and how its step runs."""

from collections.abc import Mapping

from vramgate.costmodel.job import Optimizer, OptimizerName, Sharding, ShardingImplementation
from vramgate.jobs.ledger import Default
from vramgate.jobs.setting import Setting
from vramgate.jobs.vocabulary import OptimizerImplementation

TORCH_OPTIMIZERS = frozenset(
    {
        OptimizerName.ADAMW,
        OptimizerName.SGD,
        OptimizerName.SGD_MOMENTUM,
        OptimizerName.ADAGRAD,
        OptimizerName.RMSPROP,
    }
)
"""Optimizers of ``torch.optim`` that come as foreach, fused and for-loop."""

_BITSANDBYTES = frozenset(
    {
        OptimizerName.ADAMW_8BIT,
        OptimizerName.PAGED_ADAMW,
        OptimizerName.PAGED_ADAMW_8BIT,
        OptimizerName.LION_8BIT,
        OptimizerName.PAGED_LION_8BIT,
        OptimizerName.GALORE_ADAMW_8BIT,
    }
)

# transformers trainer_optimizer.py: GaLore rank 128; APOLLO rank 1 for Mini (guide), 128 as GaLore.
_RANKS: Mapping[OptimizerName, Default[int]] = {
    OptimizerName.GALORE_ADAMW: Default(128, "transformers default (galore rank)"),
    OptimizerName.GALORE_ADAMW_8BIT: Default(128, "transformers default (galore rank)"),
    OptimizerName.APOLLO: Default(128, "transformers default (apollo rank)"),
    OptimizerName.APOLLO_MINI: Default(1, "APOLLO-Mini (rank 1)"),
}
PROJECTED = frozenset(_RANKS)
"""Optimizers that work in a projected space of a given rank."""


def find_optimizer(setting: Setting, sharding: Sharding) -> Optimizer:
    """Return the optimizer complete."""
    said, ledger = setting.said.optimizer, setting.ledger
    name = ledger.said_or("optimizer.name", said.name, setting.defaults.optimizer.name)
    rank = said.rank
    if rank is None and name in _RANKS:
        rank = ledger.take("optimizer.rank", _RANKS[name])
    return Optimizer(
        name=name,
        implementation=_implementation(setting, name, sharding),
        in_backward=said.in_backward or False,
        rank=rank,
        quantized=said.quantized or False,
    )


def _implementation(setting: Setting, name: OptimizerName, sharding: Sharding) -> str:
    said = setting.said.optimizer.implementation
    if said is not None:
        return said
    if name in _BITSANDBYTES:
        return OptimizerImplementation.FUSED
    if name not in TORCH_OPTIMIZERS:
        return OptimizerImplementation.FOR_LOOP
    default = setting.defaults.optimizer.implementation
    if sharding.implementation is ShardingImplementation.MEGATRON:
        default = Default(OptimizerImplementation.FUSED, "Megatron-LM default (FusedAdam)")
    return setting.ledger.take("optimizer.implementation", default)
