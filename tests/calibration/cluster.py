"""A simulated cluster with a truth of its own: jobs, hidden factors, and what its runs report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vramgate.calibration.arrays import REQUIRED, TermArrays
from vramgate.calibration.evidence import Configuration, Layer, Run
from vramgate.calibration.labels import Label, labels_of
from vramgate.costmodel.estimate import memory_terms
from vramgate.costmodel.terms import Term
from vramgate.errors import DomainError
from vramgate.jobs.resolve import resolve
from vramgate.wire.job import JobIn
from vramgate.wire.validation import validated
from vramgate.workflows.load_catalogs import load_catalogs

NOISE = 0.03
GROSS = 0.02
LIE = 1.4
HONEST, LIAR = ("north", "south"), "liar"

_ACTIVATIONS = {"transformers": 1.10, "trl": 0.92, "torchtitan": 1.18, "axolotl": 1.02}
_LOGITS = {"transformers": 0.90, "trl": 1.12, "torchtitan": 1.05, "axolotl": 0.95}
_CACHE = {"transformers": 1.6, "trl": 0.7, "torchtitan": 1.2, "axolotl": 1.0}
_BY_CARD = {"a100-sxm4-80gb": 1.0, "h100-sxm5-80gb": 1.06, "l40s": 0.95}
_CONTEXT = {"a100-sxm4-80gb": 0.9, "h100-sxm5-80gb": 1.25, "l40s": 1.0}
_MODELS = (
    "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-0.5B", "mistralai/Mistral-7B-v0.1",
    "meta-llama/Llama-3.2-1B", "google/gemma-2-9b", "microsoft/Phi-3-mini-4k-instruct",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJob:
    """A job, its labels, and the card that it gets."""

    configuration: Configuration
    card: str
    usable: int


@cache
def all_jobs() -> tuple[SimulatedJob, ...]:
    """Return every job that the cluster's users may send and that resolves."""
    return tuple(_resolved(_described()))


def _described() -> Iterator[dict[str, Any]]:
    for framework in _ACTIVATIONS:
        for card in _BY_CARD:
            for model in _MODELS:
                for method in ("full", "lora", "qlora"):
                    for checkpointing in ("none", "full"):
                        for rows, length in ((1, 1024), (1, 4096), (2, 2048), (4, 2048), (8, 1024)):
                            yield {
                                "model": {"name": model},
                                "method": method
                                if method == "full"
                                else {"kind": method, "rank": 16},
                                "precision": "bf16-true",
                                "optimizer": "adamw",
                                "micro_batch_size": rows,
                                "sequence_length": length,
                                "packing": "packed",
                                "activation_checkpointing": checkpointing,
                                "hardware": {"accelerator": card},
                                "software": {"framework": framework},
                            }


def _resolved(described: Iterator[dict[str, Any]]) -> Iterator[SimulatedJob]:
    catalogs = load_catalogs(None)
    for number, job in enumerate(described):
        try:
            resolved = resolve(
                validated(JobIn, job).to_domain(),
                models=catalogs.models,
                accelerators=catalogs.accelerators,
            )
        except DomainError:
            continue
        card = resolved.job.hardware.device
        assert card is not None
        configuration = Configuration(
            key=str(number),
            labels=labels_of(resolved.job, resolved.model_name),
            terms=memory_terms(resolved.job),
            group=str(number),
        )
        yield SimulatedJob(configuration=configuration, card=card.name, usable=card.usable_bytes)


def true_factors(jobs: Sequence[SimulatedJob]) -> dict[Term, NDArray[np.float64]]:
    """Return the hidden factors of jobs."""

    def of(table: Mapping[str, float], by: str) -> NDArray[np.float64]:
        return np.array(
            [
                table[one.card if by == "card" else one.configuration.labels[Label.FRAMEWORK]]
                for one in jobs
            ]
        )

    return {
        **{term: np.ones(len(jobs)) for term in Term},
        Term.ACTIVATIONS: of(_ACTIVATIONS, "framework") * of(_BY_CARD, "card"),
        Term.LOGITS: of(_LOGITS, "framework"),
        Term.CACHE: of(_CACHE, "framework"),
        Term.CONTEXT: of(_CONTEXT, "card"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What jobs really take, noise included."""

    layers: Mapping[Layer | str, NDArray[np.float64]]


def truth_of(jobs: Sequence[SimulatedJob], random: np.random.Generator) -> Truth:
    """Return one run of each job."""
    arrays = TermArrays([one.configuration for one in jobs])
    layers = arrays.layers(true_factors(jobs))
    noise = np.exp(random.normal(0, NOISE, len(jobs)))
    return Truth(layers={layer: one.size * noise for layer, one in layers.items()})


def reports(
    count: int, random: np.random.Generator, *, liar: bool = True, gross: float = GROSS
) -> list[Run]:
    """Return what runs of random jobs report; an out-of-memory run has seen no peak."""
    pool = all_jobs()
    jobs = [pool[index] for index in random.integers(0, len(pool), count)]
    tenants = (*HONEST, LIAR) if liar else HONEST
    senders = [tenants[index] for index in random.integers(0, len(tenants), count)]
    return runs_of(jobs, senders, random, gross=gross)


def runs_of(
    jobs: Sequence[SimulatedJob],
    senders: Sequence[str],
    random: np.random.Generator,
    *,
    gross: float = 0.0,
) -> list[Run]:
    """Return one run of each job by its sender."""
    truth = truth_of(jobs, random)
    return [
        _out_of_memory(job, sender)
        if truth.layers[REQUIRED][row] > job.usable
        else _lived(
            job, sender, {layer: truth.layers[layer][row] for layer in Layer}, random, gross
        )
        for row, (job, sender) in enumerate(zip(jobs, senders, strict=True))
    ]


def _out_of_memory(job: SimulatedJob, sender: str) -> Run:
    return Run(
        configuration=job.configuration, tenant=sender, measured={}, required_above=job.usable
    )


def _lived(
    job: SimulatedJob,
    sender: str,
    peaks: Mapping[Layer, float],
    random: np.random.Generator,
    gross: float,
) -> Run:
    odd = float(random.choice([0.5, 0.6, 1.6, 2.0])) if random.random() < gross else 1.0
    lie = LIE if sender == LIAR else 1.0
    return Run(
        configuration=job.configuration,
        tenant=sender,
        measured={layer: int(size * odd * lie) for layer, size in peaks.items()},
        required_within=job.usable,
    )
