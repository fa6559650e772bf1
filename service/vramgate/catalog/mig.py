"""MIG slices of NVIDIA cards as devices of their own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from vramgate.catalog.accelerator_facts import Accelerator, Interconnect, MigProfile, PeakFlops
from vramgate.units import GIB

_NO_PEERS = "a process sees one slice, and slices have no peer-to-peer: one job cannot span several"
_MEMORY_SLICES = 8
_COMPUTE_SLICES = 7
_SMALL_CARD_SLICES = 4
"""A30 and RTX PRO 6000 are cut into quarters. Source: NVIDIA MIG user guide, supported profiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSupplement:
    """What the cards' rows leave out: multiprocessors by profile, and second names of profiles."""

    multiprocessors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    profile_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def profile_of(self, card: Accelerator, name: str) -> MigProfile | None:
        """Return the card's profile of that name, under either of its names."""
        own = self.profile_names.get(card.name, {}).get(name, name)
        return next((profile for profile in card.mig_profiles if profile.name == own), None)

    def slices_of(self, card: Accelerator) -> Iterator[Accelerator]:
        """Yield every slice the card can be cut into."""
        for profile in card.mig_profiles:
            yield self.slice_of(card, profile)

    def slice_of(self, card: Accelerator, profile: MigProfile) -> Accelerator:
        """Return one slice of a card: its memory as listed, its rates by its share of the card.

        Compute is the profile's first figure over the card's slices; bandwidth its memory in
        eighths. Listings of whole-card slices exceed what torch gets of the card by up to 0.2 %:
        no slice is taken to hold more than its card.
        """
        compute, _, memory = profile.name.partition("g.")
        quarters = any(other.name.startswith("4g") for other in card.mig_profiles[-1:])
        slices = _SMALL_CARD_SLICES if quarters else _COMPUTE_SLICES
        counts = self.multiprocessors.get(card.name, {})
        eighths = round(profile.memory_bytes * _MEMORY_SLICES / card.usable_bytes)
        bandwidth = card.memory_bandwidth_bytes_per_s
        return replace(
            card,
            name=f"{card.name}-mig-{profile.name}",
            display_name=f"{card.display_name} MIG {profile.name}",
            aliases=(),
            cloud_instances=(),
            memory_bytes_nominal=int(memory.removesuffix("gb")) * GIB,
            memory_mib_reported=None,
            usable_bytes=min(profile.memory_bytes, card.usable_bytes),
            usable_basis=profile.basis,
            usable_bytes_range=None,
            memory_bandwidth_bytes_per_s=bandwidth and bandwidth * eighths // _MEMORY_SLICES,
            peak_flops=_share(card.peak_flops, int(compute), slices),
            interconnect=Interconnect(pcie_gen=card.interconnect.pcie_gen),
            mig_profiles=(),
            typical_gpus_per_node=1,
            multiprocessors=counts.get(profile.name, counts.get(f"{compute}g")),
            note=_NO_PEERS,
            mig_of=card.name,
            mig_profile=profile.name,
        )


def _share(peak: PeakFlops, compute: int, slices: int) -> PeakFlops:
    def part(rate: int | None) -> int | None:
        return None if rate is None else rate * compute // slices

    return PeakFlops(
        fp32=part(peak.fp32),
        tf32=part(peak.tf32),
        fp16=part(peak.fp16),
        bf16=part(peak.bf16),
        fp8=part(peak.fp8),
    )
