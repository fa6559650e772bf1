"""Setting: what every part of a job may look at while it is resolved."""

from dataclasses import dataclass

from vramgate.jobs.description import JobDescription
from vramgate.jobs.frameworks.defaults import FrameworkDefaults
from vramgate.jobs.ledger import Ledger
from vramgate.jobs.model import KnownModel
from vramgate.jobs.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What was said, of which model, under which framework, and the ledger of what was taken."""

    said: JobDescription
    model: KnownModel
    framework: str
    defaults: FrameworkDefaults
    stack: Stack
    bf16: bool
    """Whether the card has bf16; True where no card is known."""
    ledger: Ledger
