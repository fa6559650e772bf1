"""Names of accelerators as drivers, Kubernetes, Slurm and clouds write them, and their cards."""

import pytest

from tests.catalog.refusals import suggestions
from vramgate.catalog.accelerator_answers import AcceleratorMatch
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.errors import UnknownNameError
from vramgate.units import GIB, MIB

CARDS = builtin_accelerators()

# Names that NVML, torch.cuda.get_device_name and nvidia-smi print.
DRIVERS = [
    ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
    ("A100-SXM4-40GB", "a100-sxm4-40gb"),
    ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
    ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
    ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
    ("NVIDIA H100 PCIe", "h100-pcie"),
    ("NVIDIA H100 NVL", "h100-nvl"),
    ("NVIDIA H200", "h200-sxm-141gb"),
    ("NVIDIA H20", "h20-96gb"),
    ("NVIDIA B200", "b200-sxm-180gb"),
    ("NVIDIA B300 SXM6 AC", "b300-sxm"),
    ("NVIDIA GB200", "gb200"),
    ("NVIDIA GH200 480GB", "gh200-96gb"),
    ("NVIDIA GH200 120GB", "gh200-96gb"),
    ("NVIDIA L4", "l4"),
    ("NVIDIA L40S", "l40s"),
    ("NVIDIA A10G", "a10g"),
    ("Tesla T4", "t4"),
    ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
    ("Tesla V100S-PCIE-32GB", "v100-pcie-32gb"),
    ("NVIDIA GeForce RTX 4090", "rtx-4090"),
    ("GeForce RTX 2080 Ti", "rtx-2080-ti"),
    ("NVIDIA RTX A6000", "rtx-a6000"),
    ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell-server"),
    ("AMD Instinct MI300X OAM", "mi300x"),
    ("AMD Instinct MI250X/MI250", "mi250x-gcd"),
    ("Intel(R) Data Center GPU Max 1550", "max-1550-tile"),
    ("Intel(R) Arc(TM) Pro B60 Graphics", "arc-pro-b60"),
    ("Ascend910B3", "ascend-910b-64gb"),
]

# Node labels: GPU feature discovery, GKE, EKS, the AMD labeller, the Intel device plugin.
KUBERNETES = [
    ("NVIDIA-A100-SXM4-80GB", "a100-sxm4-80gb"),
    ("nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3", "h100-sxm5-80gb"),
    ('nvidia.com/gpu.product: "NVIDIA-L40S"', "l40s"),
    ("NVIDIA-A100-PCIE-80GB", "a100-pcie-80gb"),
    ("NVIDIA-H100-SXM5-80GB", "h100-sxm5-80gb"),
    ("NVIDIA-H200-141GB-HBM3e", "h200-sxm-141gb"),
    ("NVIDIA-Tesla-T4", "t4"),
    ("TESLA-T4", "t4"),
    ("NVIDIA-GeForce-RTX-5090", "rtx-5090"),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtx-pro-6000-blackwell-server"),
    ("cloud.google.com/gke-accelerator=nvidia-tesla-a100", "a100-sxm4-40gb"),
    ("nvidia-a100-80gb", "a100-sxm4-80gb"),
    ("nvidia-h100-80gb", "h100-sxm5-80gb"),
    ("nvidia-h100-mega-80gb", "h100-sxm5-80gb"),
    ("nvidia-h200-141gb", "h200-sxm-141gb"),
    ("nvidia-b200", "b200-sxm-180gb"),
    ("nvidia-l4", "l4"),
    ("nvidia-tesla-t4", "t4"),
    ("nvidia-tesla-v100", "v100-sxm2-16gb"),
    ("tpu-v5-lite-podslice", "tpu-v5e"),
    ("tpu-v4-podslice", "tpu-v4"),
    ("amd.com/gpu.product-name=AMD_Instinct_MI300X_OAM", "mi300x"),
    ("AMD_Instinct_MI325_OAM", "mi325x"),
    ("AMD-MI300X-192G", "mi300x"),
    ("Max_1100", "max-1100"),
    ("Arc_Pro_B60", "arc-pro-b60"),
]

# Slurm: gres strings of jobs and the types that AutoDetect=nvml writes.
SLURM = [
    ("gpu:nvidia_a100-sxm4-80gb:8(S:0-1)", "a100-sxm4-80gb"),
    ("gres:gpu:l40s:4", "l40s"),
    ("gres/gpu:h200=8", "h200-sxm-141gb"),
    ("--gres=gpu:geforce_rtx_3090:2", "rtx-3090"),
    ("nvidia_h100_80gb_hbm3", "h100-sxm5-80gb"),
    ("gpu:a100-40g:2", "a100-sxm4-40gb"),
]

# Machine types and how clouds and launchers count their cards.
CLOUDS = [
    ("p4d.24xlarge", "a100-sxm4-40gb"),
    ("p4de.24xlarge", "a100-sxm4-80gb"),
    ("ml.p4de.24xlarge", "a100-sxm4-80gb"),
    ("p5.48xlarge", "h100-sxm5-80gb"),
    ("p5en.48xlarge", "h200-sxm-141gb"),
    ("g5.2xlarge", "a10g"),
    ("g6e.12xlarge", "l40s"),
    ("a2-highgpu-4g", "a100-sxm4-40gb"),
    ("a2-ultragpu-8g", "a100-sxm4-80gb"),
    ("a3-megagpu-8g", "h100-sxm5-80gb"),
    ("g2-standard-24", "l4"),
    ("Standard_ND96asr_v4", "a100-sxm4-40gb"),
    ("Standard_ND96amsr_A100_v4", "a100-sxm4-80gb"),
    ("Standard_NC12s_v3", "v100-pcie-16gb"),
    ("Standard_NC48ads_A100_v4", "a100-pcie-80gb"),
    ("Standard_ND96isr_MI300X_v5", "mi300x"),
    ("BM.GPU.H100.8", "h100-sxm5-80gb"),
    ("ecs.gn7i-c8g1.2xlarge", "a10"),
    ("gpu_8x_a100_80gb_sxm4", "a100-sxm4-80gb"),
    ("A100-80GB:4", "a100-sxm4-80gb"),
    ("8x L40S", "l40s"),
    ("nvidia-rtx-pro-6000 x8", "rtx-pro-6000-blackwell-server"),
    ("b200 192gb", "b200-sxm-180gb"),
]

SLICES = [
    ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "a100-sxm4-80gb-mig-3g.40gb"),
    ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "h100-sxm5-80gb-mig-1g.10gb"),
    ("A100-SXM4-40GB-MIG-1g.5gb-SHARED", "a100-sxm4-40gb-mig-1g.5gb"),
    ("gpu:a100_3g.20gb:1", "a100-sxm4-40gb-mig-3g.20gb"),
    ("a100_3g20gb", "a100-sxm4-40gb-mig-3g.20gb"),
    ("nvidia_h100_80gb_hbm3_2g.20gb", "h100-sxm5-80gb-mig-2g.20gb"),
    ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", "h100-sxm5-80gb-mig-3g.40gb"),
    ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.me", "a100-sxm4-80gb-mig-1g.10gb"),
    ("GB200-MIG-3g.93gb", "gb200-mig-3g.95gb"),
    ("a100-sxm4-80gb-mig-3g.40gb", "a100-sxm4-80gb-mig-3g.40gb"),
    ("nvidia_h100_nvl_3g.47gb", "h100-nvl-mig-3g.47gb"),
    ("NVIDIA-A30-MIG-2g.12gb", "a30-mig-2g.12gb"),
]

# Cards of other memory or silicon that a careless reading would take for one in the catalog.
STRANGERS = [
    "NVIDIA A100-SXM-64GB",  # Leonardo
    "NVIDIA H100 64GB HBM2",  # MareNostrum 5
    "NVIDIA H100 96GB HBM3",
    "NVIDIA GeForce RTX 4090 Laptop GPU",  # 16 GB
    "RTX 4090 D",
    "RTX6000",  # Turing's, Ada's or Blackwell's
    "g5g.xlarge",  # T4G
    "Standard_NV6ads_A10_v5",  # a sixth of an A10
    "NVIDIA A10-24Q",  # a virtual GPU
    "MI250X 128GB",  # two devices
    "gpu:4",
    "nvidia.com/gpu",
    "",
]


@pytest.mark.parametrize(("name", "expected"), [*DRIVERS, *KUBERNETES, *SLURM, *CLOUDS, *SLICES])
def test_a_name_in_the_wild_means_its_card(name: str, expected: str) -> None:
    assert CARDS.resolve(name).entry.name == expected


@pytest.mark.parametrize(("name", "expected"), [*DRIVERS, *KUBERNETES])
def test_a_full_name_leaves_no_doubt(name: str, expected: str) -> None:
    found = CARDS.resolve(name)

    assert (found.entry.name, found.note, found.rivals) == (expected, "", ())


@pytest.mark.parametrize("name", STRANGERS)
def test_another_card_is_refused_with_a_way_out(name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        CARDS.resolve(name)

    assert caught.value.hint
    assert len(suggestions(caught.value)) <= 5


@pytest.mark.parametrize(
    ("name", "assumed", "others"),
    [
        ("a100", "a100-sxm4-80gb", {"a100-sxm4-40gb", "a100-pcie-40gb"}),
        ("gpu:a100:4", "a100-sxm4-80gb", {"a100-sxm4-40gb", "a100-pcie-40gb"}),
        ("h100", "h100-sxm5-80gb", {"h100-nvl"}),
        ("NVIDIA-H100", "h100-sxm5-80gb", {"h100-nvl"}),
        ("4x H100 GPUs", "h100-sxm5-80gb", {"h100-nvl"}),
        ("v100", "v100-sxm2-16gb", {"v100-sxm2-32gb", "v100-pcie-32gb"}),
        ("NVIDIA GeForce RTX 4060 Ti", "rtx-4060-ti-16gb", {"rtx-4060-ti-8gb"}),
    ],
)
def test_a_short_name_says_what_else_it_may_be(name: str, assumed: str, others: set[str]) -> None:
    found = CARDS.resolve(name)

    assert (found.entry.name, {card.name for card in found.rivals}) == (assumed, others)
    assert all(other in found.note for other in others)


@pytest.mark.parametrize("name", ["A100-SXM4", "A100 PCIE", "gpu_1x_a100_sxm4"])
def test_a_form_factor_of_two_sizes_is_refused_with_both(name: str) -> None:
    with pytest.raises(UnknownNameError, match="could be any of") as caught:
        CARDS.resolve(name)

    assert len(suggestions(caught.value)) == 2


@pytest.mark.parametrize(
    ("name", "memory_bytes", "expected"),
    [
        ("a100", 40 * GIB, "a100-sxm4-40gb"),
        ("a100", 80_000_000_000, "a100-sxm4-80gb"),  # the maker's 80 GB
        ("a100", 81_251 * MIB, "a100-sxm4-80gb"),  # nvidia.com/gpu.memory of a real node
        ("a100", 39_538 * MIB, "a100-sxm4-40gb"),  # nvidia.com/gpu.memory in GFD's documentation
        ("A100-SXM4", 42_298_834_944, "a100-sxm4-40gb"),  # torch's total_memory
        ("h100", 95_830 * MIB, "h100-nvl"),
        ("v100", 32 * GIB, "v100-sxm2-32gb"),
        ("Tesla-V100", 16_384 * MIB, "v100-sxm2-16gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 8_188 * MIB, "rtx-4060-ti-8gb"),
        ("T4", 15_109 * MIB, "t4"),
    ],
)
def test_the_memory_size_settles_a_short_name(name: str, memory_bytes: int, expected: str) -> None:
    found = CARDS.resolve(name, memory_bytes)

    assert (found.entry.name, found.rivals) == (expected, ())


def test_a_memory_size_that_decided_is_said() -> None:
    found = CARDS.resolve("a100", 40 * GIB)

    assert found.how is AcceleratorMatch.MEMORY
    assert "40.00 GiB" in found.note


def test_a_memory_size_that_no_card_has_is_said() -> None:
    found = CARDS.resolve("a100", 64 * GIB)

    assert found.entry.name == "a100-sxm4-80gb"
    assert "64.00 GiB stated" in found.note


def test_sharing_without_isolation_is_said() -> None:
    found = CARDS.resolve("NVIDIA-A100-SXM4-80GB-SHARED")

    assert found.shared
    assert "shared" in found.note


@pytest.mark.parametrize("name", ["gpu:1g.10gb", "nvidia.com/mig-3g.40gb"])
def test_a_profile_without_a_card_is_refused_with_the_cards(name: str) -> None:
    with pytest.raises(UnknownNameError, match="could be any of") as caught:
        CARDS.resolve(name)

    assert "a100-sxm4-80gb-mig" in " ".join(suggestions(caught.value))


def test_a_profile_the_card_cannot_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(UnknownNameError, match=r"3g\.20gb") as caught:
        CARDS.resolve("NVIDIA-A100-SXM4-80GB-MIG-3g.20gb")

    assert "a100-sxm4-80gb-mig-3g.40gb" in caught.value.hint


def test_a_card_without_slices_says_so() -> None:
    with pytest.raises(UnknownNameError) as caught:
        CARDS.resolve("l4_1g.5gb")

    assert "no known MIG slices" in caught.value.hint


def test_a_profile_of_an_unknown_card_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no accelerator"):
        CARDS.resolve("x999_1g.10gb")


def test_a_slice_of_two_like_cards_is_the_smaller_and_says_so() -> None:
    # 1g.10gb: 9.62 GiB on the 40 GB card, 9.50 GiB on the 80 GB card.
    found = CARDS.resolve("a100_1g.10gb")

    assert found.entry.name == "a100-sxm4-80gb-mig-1g.10gb"
    assert "a100-sxm4-40gb" in found.note


def test_a_memory_size_settles_a_slice() -> None:
    # nvidia.com/gpu.memory of a MIG node in NVIDIA's GPU operator documentation: 4864 for 1g.5gb.
    assert CARDS.resolve("a100_1g.5gb", 4_864 * MIB).entry.name == "a100-sxm4-40gb-mig-1g.5gb"
