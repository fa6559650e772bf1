"""What is known of one accelerator: its memory by several counts, its rates, its links."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vramgate.costmodel.job import Device
from vramgate.units import MIB, format_gib

USABLE_PERCENT_OF_NOMINAL = 97
"""Taken of the nominal memory where nobody has read the usable figure.

Source: the rule of thumb for Kubernetes' memory label. Of the measured cards in
``accelerators.json`` the median is 98.6 %; one in ten is below 92.2 % (GDDR with ECC).
"""

_NOMINAL = "nominal"
_BASES = {
    "measured": "read from torch on this card",
    "measured-unnamed": "read from torch messages of this size that do not name the card",
    "derived": "not measured; derived from the driver's total or from cards with the same memory",
    "site": "stated by this site",
    _NOMINAL: f"not known; {USABLE_PERCENT_OF_NOMINAL} % of the nominal memory was taken",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakFlops:
    """Dense peak rates of the datasheet, operations per second by number format; None: no such."""

    fp32: int | None = None
    tf32: int | None = None
    fp16: int | None = None
    bf16: int | None = None
    fp8: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interconnect:
    """Links to other cards, bytes per second both ways together, as datasheets print them."""

    nvlink_bytes_per_s: int | None = None
    xgmi_bytes_per_s: int | None = None
    link_bytes_per_s: int | None = None
    pcie_gen: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A slice an NVIDIA card can be cut into: its usable bytes and how they are known."""

    name: str
    memory_bytes: int
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device as a job sees it: a card, a die of a card, or a MIG slice of one."""

    name: str
    display_name: str
    vendor: str
    memory_bytes_nominal: int
    usable_bytes: int
    """Bytes torch can hand out on an idle card: the capacity of an answer."""
    usable_basis: str = _NOMINAL
    """measured | measured-unnamed | derived | nominal | site; of a slice: in words."""
    architecture: str = ""
    aliases: tuple[str, ...] = ()
    compute_capability: str | None = None
    """As the maker writes it: "8.0", "gfx942"."""
    memory_mib_reported: int | None = None
    """MiB in all, as the driver reports them (nvidia-smi, the label nvidia.com/gpu.memory)."""
    usable_bytes_range: tuple[int, int] | None = None
    """The least and most usable bytes seen, over drivers and settings such as ECC."""
    memory_bandwidth_bytes_per_s: int | None = None
    peak_flops: PeakFlops = PeakFlops()
    bf16_native: bool = True
    fp8_native: bool = False
    interconnect: Interconnect = Interconnect()
    mig_profiles: tuple[MigProfile, ...] = ()
    typical_gpus_per_node: int = 8
    cloud_instances: tuple[str, ...] = ()
    multiprocessors: int | None = None
    multiprocessors_source: str | None = None
    source: str = ""
    note: str | None = None
    mig_of: str | None = None
    """The id of the card, if this is a slice."""
    mig_profile: str | None = None
    origin: str = "built-in"

    def __hash__(self) -> int:
        """Hash by id, which is unique in a catalog."""
        return hash(self.name)

    @property
    def usable_explained(self) -> str:
        """Return the usable bytes and how they are known, as a sentence for people."""
        basis = _BASES.get(self.usable_basis, self.usable_basis)
        seen = ""
        if self.usable_bytes_range is not None:
            least, most = self.usable_bytes_range
            seen = f"; {format_gib(least)} to {format_gib(most)} seen"
        return f"{format_gib(self.usable_bytes)} of {self.name} are usable: {basis}{seen}."

    def device(self, usable_bytes: int | None = None) -> Device:
        """Return the card as the cost model takes it; a stated capacity replaces the catalog's."""
        return Device(
            name=self.name,
            usable_bytes=self.usable_bytes if usable_bytes is None else usable_bytes,
            compute_capability=_capability(self.compute_capability),
            vendor=self.vendor,
            architecture=self.architecture,
            bf16_native=self.bf16_native,
            multiprocessors=self.multiprocessors,
        )

    def may_hold(self, memory_bytes: int) -> bool:
        """Return whether a reading of some meter, in bytes, can be this card's whole memory.

        From a tenth below what torch gets (makers' gigabytes of 10⁹, drivers that hold more back)
        to 2 % above the largest figure; guess, narrow enough to tell the sizes of every card here
        apart.
        """
        return self.usable_bytes * 90 <= memory_bytes * 100 <= self._largest * 102

    @property
    def most_bytes(self) -> int:
        """What no card of this name has more than: variants differ by a factor of two, units by a thousand."""
        return 4 * self._largest

    @property
    def _largest(self) -> int:
        return max(self.memory_bytes_nominal, (self.memory_mib_reported or 0) * MIB)


def _capability(written: str | None) -> tuple[int, int] | None:
    """Return NVIDIA's compute capability as two numbers; None for other makers' names.

    >>> _capability("8.6"), _capability("gfx942")
    ((8, 6), None)
    """
    major, _, minor = (written or "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def usable_of_nominal(memory_bytes_nominal: int) -> int:
    """Return the usable bytes taken where only the nominal memory is known.

    >>> usable_of_nominal(100)
    97
    """
    return memory_bytes_nominal * USABLE_PERCENT_OF_NOMINAL // 100


def accelerator_from_row(row: Mapping[str, Any]) -> Accelerator:
    """Return the accelerator of one row of ``accelerators.json``, or of a checked site entry."""
    fields = dict(row)
    if fields.get("usable_bytes") is None:
        fields["usable_bytes"] = usable_of_nominal(fields["memory_bytes_nominal"])
        fields["usable_basis"] = _NOMINAL
    for name in ("aliases", "cloud_instances"):
        fields[name] = tuple(fields.get(name, ()))
    fields["peak_flops"] = PeakFlops(**fields.get("peak_flops", {}))
    fields["interconnect"] = Interconnect(**fields.get("interconnect", {}))
    fields["mig_profiles"] = tuple(MigProfile(**p) for p in fields.get("mig_profiles", ()))
    seen = fields.get("usable_bytes_range")
    fields["usable_bytes_range"] = None if seen is None else (seen[0], seen[1])
    return Accelerator(**fields)
