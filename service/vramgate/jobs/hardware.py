"""The cards of a job."""

from math import prod

from vramgate.catalog.accelerator_facts import Accelerator
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.costmodel.job import Device, Hardware
from vramgate.errors import DomainError, FieldError, InvalidJobError
from vramgate.jobs.description import HardwareDescription, JobDescription
from vramgate.jobs.ledger import Default, Ledger
from vramgate.units import format_gib

ACCELERATOR_POINTER = "/job/hardware/accelerator"
_USUAL_NODE = 8  # DGX and HGX boards, and every cloud's largest instance of them


def find_hardware(
    said: JobDescription, accelerators: AcceleratorCatalog, ledger: Ledger
) -> Hardware:
    """Return the cards; without an accelerator or a memory size the job has no capacity.

    Raises:
        UnknownNameError: the catalog knows no such accelerator.
        InvalidJobError: it cannot have the memory that is said.
    """
    hardware = said.hardware
    devices = hardware.devices or ledger.take("hardware.devices", _devices(said))
    per_node = hardware.devices_per_node
    if per_node is None:
        per_node = min(devices, _USUAL_NODE)
        if devices > 1:
            ledger.note("hardware.devices_per_node", per_node, "vramgate: up to 8 a node")
    return Hardware(
        device=_device(hardware, accelerators, ledger),
        devices=devices,
        devices_per_node=per_node,
        occupied_bytes=hardware.occupied_bytes or 0,
    )


def _devices(said: JobDescription) -> Default[int]:
    """Return the fewest devices that the sizes said ask for."""
    sizes = said.parallelism
    replicas = max(said.sharding.shard_group_size or 1, sizes.expert_parallel_size or 1)
    product = replicas * prod(
        size or 1
        for size in (
            sizes.tensor_parallel_size,
            sizes.pipeline_parallel_size,
            sizes.context_parallel_size,
        )
    )
    if product > 1:
        return Default(product, "vramgate: the product of the parallel sizes")
    return Default(1, "vramgate: one device")


def _device(
    said: HardwareDescription, accelerators: AcceleratorCatalog, ledger: Ledger
) -> Device | None:
    memory = said.device_memory_bytes
    if said.accelerator is None:
        return None if memory is None else Device(name="unnamed", usable_bytes=memory)
    try:
        found = accelerators.resolve(said.accelerator, memory)
    except DomainError as error:
        field = FieldError(
            pointer=ACCELERATOR_POINTER,
            code=error.code,
            detail=error.message,
            value=said.accelerator,
        )
        raise type(error)(error.message, hint=error.hint, fields=[field], **error.data) from None
    if memory is not None and memory > found.entry.most_bytes:
        raise _too_large(memory, found.entry)
    if found.note:
        ledger.note("hardware.accelerator", found.entry.name, found.note)
    if found.shared:
        ledger.warn(
            "shared_device",
            f"{said.accelerator} is shared by time-slicing or MPS: nobody guarantees its memory to one"
            " job; give hardware.occupied_bytes.",
        )
    return found.entry.device(memory)


def _too_large(memory: int, card: Accelerator) -> InvalidJobError:
    detail = (
        f"device_memory_bytes are {format_gib(memory)}, and {card.name} has"
        f" {format_gib(card.memory_bytes_nominal)}"
    )
    hint = "leave it out, or name the card that has so much"
    field = FieldError(
        pointer="/job/hardware/device_memory_bytes",
        code="above_the_card",
        detail=f"{detail}; {hint}",
        value=memory,
    )
    return InvalidJobError(detail, hint=hint, fields=[field])
