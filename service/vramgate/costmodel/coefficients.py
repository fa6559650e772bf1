"""Every inexact constant of the model: value, unit, source, and whether calibration may move it.

What follows from a shape or a number format is computed elsewhere and is exact; only what a driver, a library or an
allocator adds is here.
"""

from dataclasses import dataclass

from vramgate.units import MIB

MODEL_VERSION = "2026.11.1"
"""Raised by every change that moves a golden number; stored with each estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """One inexact constant."""

    name: str
    value: float
    unit: str
    source: str
    calibrates: bool = True


_VARIABLE_LENGTHS = (
    "rows of varying length leave blocks of many sizes in the cache: fit over 56 ms-swift benchmark runs (2.2-3.9); a "
    "simulated caching allocator gives 1.6-3.1 for 8 to 40 random lengths"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """The inexact constants in use; ``calibration`` makes others from reports."""

    fragmentation_fraction: Coefficient = Coefficient(
        name="fragmentation_fraction",
        value=0.03,
        unit="of allocated",
        source="what a cache flush cannot give back: 42 out-of-memory and 233 finished runs of fms-acceleration on "
        "80 GB cards are told apart by 2-4 %",
    )
    fragmentation_fraction_expandable: Coefficient = Coefficient(
        name="fragmentation_fraction_expandable",
        value=0.01,
        unit="of allocated",
        source="2 MiB pages instead of whole segments (PyTorch CUDACachingAllocator, expandable_segments)",
    )
    context_bytes: Coefficient = Coefficient(
        name="context_bytes",
        value=500 * MIB,
        unit="bytes",
        source="CUDA context with lazily loaded kernels: 300-500 MB in pytorch issues 86509, 107667, 109888; "
        "426 MiB on RTX 6000 Ada (unsloth-zoo 1053); at most 1.0 GB with libraries on A100 (fms-acceleration)",
    )
    eager_context_bytes: Coefficient = Coefficient(
        name="eager_context_bytes",
        value=1_343 * MIB,
        unit="bytes",
        source="CUDA context with all kernels loaded at once, before torch 1.13 (PyTorch pull request 86509 made "
        "loading lazy): printed by the transformers guide to training on one GPU, V100",
    )
    nccl_first_communicator_bytes: Coefficient = Coefficient(
        name="nccl_first_communicator_bytes",
        value=1_300 * MIB,
        unit="bytes",
        source="fms-acceleration: two cards show at least 1.4 GB more than one at equal allocation; NCCL issue 864: "
        "1.6 GB after one communicator",
    )
    nccl_communicator_bytes: Coefficient = Coefficient(
        name="nccl_communicator_bytes",
        value=500 * MIB,
        unit="bytes",
        source="Fujii et al. 2024 (arXiv 2411.06465) web tool: 0.5 GB a communicator beyond the first",
    )
    cached_transient_fraction: Coefficient = Coefficient(
        name="cached_transient_fraction",
        value=0.2,
        unit="of what comes and goes in a step",
        source="replaying traced allocations of rows of one length in a simulated caching allocator: 0.03-0.30; "
        "within it, what leaves at most a fifth of the public reserved and device readings under by over 5 %",
    )
    variable_length_floor: Coefficient = Coefficient(
        name="variable_length_floor",
        value=2.0,
        unit="times what comes and goes in a step",
        source=_VARIABLE_LENGTHS,
    )
    variable_length_extra: Coefficient = Coefficient(
        name="variable_length_extra",
        value=2.1,
        unit="times what comes and goes in a step, for short rows on top",
        source=_VARIABLE_LENGTHS,
    )
    variable_length_scale: Coefficient = Coefficient(
        name="variable_length_scale",
        value=2_800.0,
        unit="tokens of a row at which half of the extra is gone",
        source=_VARIABLE_LENGTHS,
    )

    def all(self) -> tuple[Coefficient, ...]:
        """Return the coefficients in order."""
        return tuple(getattr(self, name) for name in self.__slots__)


FIRST_PRINCIPLES = Coefficients()

CUBLAS_WORKSPACE_BYTES = 8_519_680
"""One cuBLAS workspace below Hopper: ":4096:2:16:8" (PyTorch ``CUDABlas.cpp``)."""
CUBLAS_WORKSPACE_HOPPER_BYTES = 32 * MIB
CUBLAS_HANDLES = 2
"""The forward thread and the autograd thread have a handle each; fms-acceleration shows 17.04 MB on every row."""
HOPPER = (9, 0)
