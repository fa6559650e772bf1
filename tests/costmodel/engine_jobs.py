"""Jobs given as JSON, resolved with the catalogs that ship, and what the engine makes of them; small round models."""

from typing import Any

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.costmodel.architecture import Part, linear
from vramgate.costmodel.breakdown import Component, MemoryEstimate, Phase
from vramgate.costmodel.estimate import estimate_memory
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.moments import Moment
from vramgate.costmodel.parallelism import PipelineStage, pipeline_stages
from vramgate.costmodel.step import Step
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight, held_weight
from vramgate.jobs.resolve import resolve
from vramgate.wire.job import JobIn

HIDDEN, INNER, HEADS, KEY_VALUE, LAYERS, VOCABULARY = 256, 512, 4, 128, 4, 1000
"""H, I, n, K (width of all keys), L and V of the small Llama; its queries are as wide as the stream."""
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
}
ATTENTION_WEIGHTS = HIDDEN * (2 * HIDDEN + 2 * KEY_VALUE)
MLP_WEIGHTS = 3 * HIDDEN * INNER
LINEAR_WEIGHTS = ATTENTION_WEIGHTS + MLP_WEIGHTS
BLOCK_PARAMETERS = LINEAR_WEIGHTS + 2 * HIDDEN
TABLE = VOCABULARY * HIDDEN
PARAMETERS = LAYERS * BLOCK_PARAMETERS + 2 * TABLE + HIDDEN
"""All of the small Llama: the blocks, the embedding, the output layer, the final norm."""
TOKENS = 128
NEWEST = "torch 2.13 / transformers 5.24 / peft 0.21"


def llama(**config: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
    """Return the small Llama as a job's model, other config fields by keyword."""
    return {"config": {**LLAMA, **config}}


def a_job(**fields: Any) -> TrainingJob:  # noqa: ANN401 whatever JSON holds
    """Resolve a job: the small Llama, all of it in bf16, one row of 128 tokens; every field can be overridden."""
    given: dict[str, Any] = {
        "model": llama(),
        "method": "full",
        "precision": "bf16-true",
        "optimizer": "adamw",
        "micro_batch_size": 1,
        "sequence_length": TOKENS,
        "gradient_accumulation_steps": 1,
        "packing": "packed",
        "activation_checkpointing": "none",
        "attention": "sdpa",
        "loss": "standard",
        **fields,
    }
    given.setdefault("software", {"framework": "transformers", "stack": NEWEST})
    description = JobIn.model_validate(given).to_domain()
    resolved = resolve(description, models=builtin_models(), accelerators=builtin_accelerators())
    return resolved.job


def cards(devices: int, accelerator: str = "a100-sxm4-80gb") -> dict[str, Any]:
    """Return a job's hardware."""
    return {"accelerator": accelerator, "devices": devices}


def estimated(**fields: Any) -> MemoryEstimate:  # noqa: ANN401 whatever JSON holds
    """Return the estimate of ``a_job``."""
    return estimate_memory(a_job(**fields))


def a_step(job: TrainingJob, stage: PipelineStage | None = None) -> Step:
    """Return the step of a job's first pipeline stage, run."""
    step = Step(job, stage or pipeline_stages(job)[0])
    step.run()
    return step


def highest(step: Step, phase: Phase) -> Moment:
    """Return the highest moment of a phase."""
    moments = [moment for moment in step.ledger.moments if moment.phase is phase]
    return max(moments, key=lambda moment: moment.bytes)


def held(job: TrainingJob, phase: Phase, *components: Component) -> int:
    """Return the bytes of some components at a phase's highest moment, on the first stage."""
    moment = highest(a_step(job), phase)
    return sum(int(moment.components.get(component, 0)) for component in components)


def kept_by_block(job: TrainingJob) -> int:
    """Return what autograd keeps of the last block, the weight copies of autocast left out."""
    return int(estimate_memory(job).saved_bytes_per_block)


def a_tape(*, autocast: bool = False, compute_width: int = 2) -> Tape:
    """Return a tape of a run in bf16, or of autocast to it."""
    return Tape(autocast=autocast, compute_width=compute_width)


def an_input(tape: Tape, elements: int, width: int = 2) -> Tensor:
    """Return a tensor of the stream, whose gradient is wanted."""
    return tape.new(elements, width, requires_grad=True)


def a_weight(job: TrainingJob, inputs: int, outputs: int, *, bias: bool = False) -> Weight:
    """Return a query projection as a job holds it."""
    module = linear("self_attn.q_proj", Part.ATTENTION, "query", inputs, outputs, bias=bias)
    return held_weight(module, job, in_block=True)


def run_backward(tape: Tape, out: Tensor) -> None:
    """Let a gradient arrive at an output whose name is gone, and look for the peak from there."""
    tape.drop(out)
    tape.restart_peak()
    out.gradient = tape.new_gradient(out.size)
    tape.backward()
