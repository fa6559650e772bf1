"""Which modules a LoRA adapts: peft's defaults, and ``target_modules`` against a model.

peft ``tuners/tuners_utils.py`` ``check_target_module_exists``: a list matches names or their dotted
ends, a string is a regular expression over the whole name (``target_patterns``), "all-linear" is
every linear layer but the head.
"""

from collections.abc import Mapping

from vramgate.costmodel.architecture import ModelArchitecture, ModelClass, ModuleKind, Part

ALL_LINEAR = "all-linear"

_QUERY_VALUE = ("q_proj", "v_proj")

# peft 0.21.2 utils/constants.py, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.
_BY_MODEL_TYPE: Mapping[str, str | tuple[str, ...]] = {
    "t5": ("q", "v"),
    "mt5": ("q", "v"),
    "bart": _QUERY_VALUE,
    "gpt2": ("c_attn",),
    "bloom": ("query_key_value",),
    "opt": _QUERY_VALUE,
    "gptj": _QUERY_VALUE,
    "gpt_neox": ("query_key_value",),
    "gpt_neo": _QUERY_VALUE,
    "bert": ("query", "value"),
    "roberta": ("query", "value"),
    "xlm-roberta": ("query", "value"),
    "electra": ("query", "value"),
    "deberta-v2": ("query_proj", "value_proj"),
    "deberta": ("in_proj",),
    "llama": _QUERY_VALUE,
    "llama4": _QUERY_VALUE,
    "chatglm": ("query_key_value",),
    "gpt_bigcode": ("c_attn",),
    "mpt": ("Wqkv",),
    "RefinedWebModel": ("query_key_value",),
    "RefinedWeb": ("query_key_value",),
    "falcon": ("query_key_value",),
    "codegen": ("qkv_proj",),
    "mistral": _QUERY_VALUE,
    "mixtral": _QUERY_VALUE,
    "stablelm": _QUERY_VALUE,
    "phi": ("q_proj", "v_proj", "fc1", "fc2"),
    "gemma": _QUERY_VALUE,
    "gemma2": _QUERY_VALUE,
    "gemma3_text": _QUERY_VALUE,
    "gemma4": r".*language_model\..*\.(q_proj|v_proj)",
    "qwen2": _QUERY_VALUE,
    "qwen3": _QUERY_VALUE,
    "nemotron_h": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "rwkv": ("key", "value", "receptance", "output"),
}


def peft_targets(model_type: str) -> str | tuple[str, ...] | None:
    """Return the modules peft adapts where none are named; None: peft asks for them.

    >>> peft_targets("gpt2")
    ('c_attn',)
    """
    return _BY_MODEL_TYPE.get(model_type)


def block_paths(architecture: ModelArchitecture, *, stacked_experts: bool) -> tuple[str, ...]:
    """Return the paths inside the blocks that can be adapted, each once."""
    kinds = {ModuleKind.LINEAR, ModuleKind.CONV1D, ModuleKind.EMBEDDING}
    if not stacked_experts:
        kinds.add(ModuleKind.EXPERTS)
    return tuple(
        dict.fromkeys(
            module.path
            for stack in architecture.stacks
            for block in stack.blocks
            for module in block.modules
            if module.kind in kinds
        )
    )


def all_paths(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Return the path of every module, of each kind of block once."""
    inside = (
        module.path
        for stack in architecture.stacks
        for block in stack.blocks
        for module in block.modules
    )
    outside = (module.path for module in architecture.outside)
    return tuple(dict.fromkeys((*inside, *outside, *tied_head(architecture))))


def outside_paths(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Return the names outside the blocks that can be adapted: head, embedding, projector."""
    names = [
        module.path
        for module in architecture.outside
        if module.is_linear or module.kind is ModuleKind.EMBEDDING or module.part is Part.HEAD
    ]
    return tuple(dict.fromkeys((*names, *tied_head(architecture))))


def tied_head(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Return the head that exists as a module, but has the embedding's weight."""
    tied = architecture.tie_word_embeddings and architecture.model_class is ModelClass.CAUSAL
    return ("lm_head",) if tied else ()


def is_named(path: str, names: tuple[str, ...]) -> bool:
    """Return whether a list of names adapts the module at a path, as peft matches ends.

    >>> is_named("self_attn.q_proj", ("q_proj",)), is_named("self_attn.qq_proj", ("q_proj",))
    (True, False)
    """
    full = f"model.layers.0.{path}"
    return any(path == name or full.endswith(f".{name}") or full == name for name in names)


# What Llama's names do, in the roles of ``costmodel.families``; fused modules do several at once.
_ROLES: Mapping[str, frozenset[str]] = {
    "q_proj": frozenset({"query", "qkv"}),
    "k_proj": frozenset({"key", "qkv"}),
    "v_proj": frozenset({"value", "qkv"}),
    "o_proj": frozenset({"attention_output"}),
    "gate_proj": frozenset({"gate", "gate_up"}),
    "up_proj": frozenset({"up", "gate_up"}),
    "down_proj": frozenset({"down"}),
}


def meant_paths(architecture: ModelArchitecture, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modules that do what Llama's names say, in a model that has other names.

    Jobs are often described in Llama's words whatever the model (litgpt's lora_query, benchmark
    tables). Empty where a name is not one of them.
    """
    if not all(name in _ROLES for name in names):
        return ()
    roles = frozenset().union(*(_ROLES[name] for name in names))
    return tuple(
        dict.fromkeys(
            module.path
            for stack in architecture.stacks
            for block in stack.blocks
            for module in block.modules
            if module.role in roles and module.is_linear
        )
    )
