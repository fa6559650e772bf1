"""Which of several devices decides."""

import pytest

from vramgate.admission.offer import (
    DeviceVerdict,
    OfferedDevice,
    deciding_device,
    devices_needed,
)
from vramgate.calibration.capacity import CapacityCheck
from vramgate.jobs.description import HardwareDescription


def device(name: str, probability: float | None) -> DeviceVerdict:
    check = CapacityCheck(
        upper_bytes=1,
        risk=0.01,
        usable_bytes=1,
        fits=True,
        headroom_bytes=0,
        oom_probability=probability,
    )
    return DeviceVerdict(id=name, accelerator="t4", check=check)


def test_the_worst_of_the_devices_that_the_job_takes_decides() -> None:
    offered = [device("a", 0.9), device("b", 0.0), device("c", 0.2), device("d", 0.1)]
    found = [deciding_device(offered, needed) for needed in (1, 2, 3, 4)]
    assert [one.id for one in found if one is not None] == ["b", "d", "c", "a"]


def test_too_few_devices_decide_nothing() -> None:
    assert deciding_device([device("a", 0.0), device("b", None)], 2) is None


@pytest.mark.parametrize(
    ("devices", "per_node", "offered", "needed"),
    [(1, 1, 4, 1), (8, 8, 8, 8), (16, 8, 8, 8), (16, 8, 16, 16), (4, 8, 8, 4)],
)
def test_a_list_of_one_node_must_hold_what_the_job_takes_of_a_node(
    devices: int, per_node: int, offered: int, needed: int
) -> None:
    assert devices_needed(devices=devices, devices_per_node=per_node, offered=offered) == needed


def test_an_offered_device_stands_in_for_the_jobs_own_card() -> None:
    said = HardwareDescription(accelerator="a100-sxm4-80gb", devices=2, device_memory_bytes=5)
    offered = OfferedDevice(id="x", accelerator="t4", used_bytes=7)
    assert offered.hardware(said) == HardwareDescription(
        accelerator="t4", devices=2, device_memory_bytes=None, occupied_bytes=7
    )
