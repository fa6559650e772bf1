"""Situation: what a ladder of changes reads of a job that does not fit."""

from dataclasses import dataclass

from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.costmodel.job import Device, TrainingJob
from vramgate.jobs.description import JobDescription
from vramgate.jobs.frameworks.defaults import FrameworkDefaults
from vramgate.jobs.frameworks.registry import framework_defaults
from vramgate.jobs.resolve import ResolvedJob
from vramgate.jobs.sharding import data_parallel_size

NVIDIA = "NVIDIA"
AMD = "AMD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A job as said, as resolved, and what its card would have to hold."""

    said: JobDescription
    resolved: ResolvedJob
    upper_bytes: int
    """What the job requires at most, at the risk asked for."""
    accelerators: AcceleratorCatalog

    @property
    def job(self) -> TrainingJob:
        """The job with nothing left open."""
        return self.resolved.job

    @property
    def framework(self) -> str:
        """The framework whose rules the job follows."""
        return self.job.software.framework

    @property
    def defaults(self) -> FrameworkDefaults:
        """What the framework does where nobody says otherwise."""
        return framework_defaults(self.framework, self.resolved.description.software.stack)

    @property
    def replicas(self) -> int:
        """The data-parallel size."""
        return data_parallel_size(int(self.job.hardware.devices), self.job.parallelism)

    @property
    def device(self) -> Device | None:
        """The card."""
        return self.job.hardware.device

    @property
    def vendor(self) -> str | None:
        """Who makes the card; None where only its memory is known."""
        if self.device is None or self.said.hardware.accelerator is None:
            return None
        return self.device.vendor

    def made_by(self, *vendors: str) -> bool:
        """Return whether the card can be of one of these makers."""
        return self.vendor is None or self.vendor in vendors
