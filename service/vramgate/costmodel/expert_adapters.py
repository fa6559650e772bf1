"""LoRA on stacked experts: which names peft turns into parameters, and the adapters it then makes.

Where transformers 5 stacked what version 4 held as lists of linear layers, peft maps the old module names to the
new parameters (``ParamWrapper``): "all-linear" and the names below adapt experts and router, and no longer the dense
layers of the same name. Source: peft 0.21.2 ``utils/transformers_weight_conversion.py``, checked on traces of
Mixtral, Qwen 3 MoE and DeepSeek V2.
"""

from vramgate.costmodel.architecture import Module, ModuleKind
from vramgate.costmodel.job import TrainingJob

CONVERTS_SINCE_PEFT = (0, 19)
"""peft maps the names from here on (guess: 0.21.2 does; transformers 5.0 asked for 0.18 and mapped none)."""
CONVERTS_SINCE_TRANSFORMERS = (5, 0)
_MIXTRAL_NAMES = frozenset({"gate", "w1", "w2", "w3"})
_QWEN_NAMES = frozenset({"gate", "gate_proj", "up_proj", "down_proj"})
_QWEN_FAMILIES = (
    "qwen3_moe",
    "qwen3_next",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "ernie4_5_moe",
    "glm4_moe",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "olmoe",
    "cohere2_moe",
)
MAPPED_NAMES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("mixtral", "minimax", "minimax_m2"), _MIXTRAL_NAMES),
    **dict.fromkeys(_QWEN_FAMILIES, _QWEN_NAMES),
}
"""Module names peft maps to expert parameters, by model type."""
FUSED_ROLES = frozenset({"expert_gate", "expert_up"})
"""Experts' weights that one parameter holds: its adapter has the rank of both."""


def mapped_names(job: TrainingJob) -> frozenset[str]:
    """Return the module names that peft maps to parameters in this job; none where it maps nothing."""
    software = job.software
    if software.peft < CONVERTS_SINCE_PEFT or software.transformers < CONVERTS_SINCE_TRANSFORMERS:
        return frozenset()
    return MAPPED_NAMES.get(job.architecture.model_type, frozenset())


def is_adapted_parameter(module: Module, targets: str | tuple[str, ...]) -> bool:
    """Return whether a module whose name peft maps is adapted: routed experts and router alone can be.

    >>> from vramgate.costmodel.architecture import Part
    >>> shared = Module(path="mlp.shared_experts.up_proj", part=Part.MLP, kind=ModuleKind.LINEAR, role="shared_up")
    >>> is_adapted_parameter(shared, "all-linear")
    False
    """
    if module.kind is not ModuleKind.EXPERTS and module.role != "router":
        return False
    name = module.path.rsplit(".", 1)[-1]
    return targets == "all-linear" or name in targets


def rank_factor(module: Module) -> int:
    """Return how many times the job's rank the second factor of an expert's adapter has."""
    return 2 if module.role in FUSED_ROLES else 1
