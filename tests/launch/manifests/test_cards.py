"""Names of cards as manifests have them, expressions over devices, shares: what each comes to."""

import pytest

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.launch import Launch
from vramgate.launch.manifests.cel import DeviceFacts, device_facts
from vramgate.launch.manifests.quantity import quantity
from vramgate.launch.read import read_launch

GIB = 2**30


def read(
    selector: str = "{}",
    limits: str = "{nvidia.com/gpu: 1}",
    annotations: str = "{}",
    spec: str = "",
) -> ParsedLaunch:
    return read_launch(
        Launch(
            manifest=f"""
kind: Pod
metadata: {{annotations: {annotations}}}
spec:
  nodeSelector: {selector}
  containers:
  - {{name: run, command: [python, run_clm.py], resources: {{limits: {limits}}}}}
{spec}
"""
        )
    )


def card(parsed: ParsedLaunch) -> str:
    """Return the catalog's id of the card that was read."""
    return builtin_accelerators().resolve(parsed.job["hardware"]["accelerator"]).entry.name


# Values of nvidia.com/gpu.product in public manifests: shared/JOBSPECS.md section 2.
@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("NVIDIA-A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA-A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA-A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA-A100-PCIE-80GB", "a100-pcie-80gb"),
        ("NVIDIA-A100-80GB-PCIe", "a100-pcie-80gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm5-80gb"),
        ("NVIDIA-H100-NVL", "h100-nvl"),
        ("NVIDIA-H100-SXM5-80GB", "h100-sxm5-80gb"),
        ("NVIDIA-H200", "h200-sxm-141gb"),
        ("NVIDIA-H200-141GB-HBM3e", "h200-sxm-141gb"),
        ("NVIDIA-L4", "l4"),
        ("NVIDIA-L40S", "l40s"),
        ("NVIDIA-A10G", "a10g"),
        ("Tesla-T4", "t4"),
        ("NVIDIA-Tesla-T4", "t4"),
        ("Tesla-V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("Tesla-V100-SXM2-32GB", "v100-sxm2-32gb"),
    ],
)
def test_a_product_is_the_card_it_names(product: str, expected: str) -> None:
    assert card(read(f"{{nvidia.com/gpu.product: {product}}}")) == expected


# Google Cloud, GPU machine types; Karpenter, well-known labels; CoreWeave, node labels.
@pytest.mark.parametrize(
    ("label", "value", "expected"),
    [
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100", "a100-sxm4-40gb"),
        ("cloud.google.com/gke-accelerator", "nvidia-a100-80gb", "a100-sxm4-80gb"),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb", "h100-sxm5-80gb"),
        ("cloud.google.com/gke-accelerator", "nvidia-h200-141gb", "h200-sxm-141gb"),
        ("cloud.google.com/gke-accelerator", "nvidia-l4", "l4"),
        ("karpenter.k8s.aws/instance-gpu-name", "a10g", "a10g"),
        ("k8s.amazonaws.com/accelerator", "nvidia-tesla-t4", "t4"),
        ("node.kubernetes.io/instance-type", "g5.12xlarge", "a10g"),
        ("node.kubernetes.io/instance-type", "Standard_ND96isr_H100_v5", "h100-sxm5-80gb"),
    ],
)
def test_a_clouds_label_is_the_card_it_names(label: str, value: str, expected: str) -> None:
    assert card(read(f"{{{label}: {value}}}")) == expected


def test_the_driver_counts_before_the_cloud() -> None:
    labels = "{node.kubernetes.io/instance-type: p5.48xlarge, nvidia.com/gpu.product: NVIDIA-L4}"

    assert card(read(labels)) == "l4"


def test_a_machine_without_known_cards_says_nothing_of_them() -> None:
    parsed = read("{node.kubernetes.io/instance-type: m5.large}")

    assert [one.field for one in parsed.unknown if one.field.startswith("hardware")] == [
        "hardware.accelerator"
    ]


def test_a_card_of_a_sites_own_keeps_its_name() -> None:
    parsed = read("{nvidia.com/gpu.product: Our-Own-Card}")

    assert parsed.job["hardware"]["accelerator"] == "Our-Own-Card"


def test_a_bound_on_memory_picks_among_cards_of_a_name() -> None:
    parsed = read(
        "{nvidia.com/gpu.product: NVIDIA-A100}",
        spec="""
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: nvidia.com/gpu.memory, operator: Gt, values: ["50000"]}]
""",
    )

    assert card(parsed) == "a100-sxm4-80gb"


def test_terms_of_which_one_may_hold_add_up() -> None:
    # Terms are alternatives: a term that says nothing of the card allows any.
    terms = """
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-H200]}]
        - matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L4]}]
"""
    other = "        - matchExpressions: [{key: zone, operator: In, values: [a]}]\n"

    assert card(read(spec=terms)) == "l4"
    assert "accelerator" not in read(spec=terms + other).job["hardware"]


def test_several_cards_are_warned_about() -> None:
    parsed = read(annotations='{nvidia.com/use-gputype: "A100,V100"}')

    assert [one.code for one in parsed.warnings if one.code == "several_accelerators"]
    assert [one.field for one in parsed.assumptions if one.field == "hardware.accelerator"]


@pytest.mark.parametrize(
    ("selector", "limits"),
    [
        ("{}", "{nvidia.com/gpu.shared: 1}"),
        ("{}", "{nvidia.com/mig-1g.10gb.shared: 1}"),
        ("{nvidia.com/gpu.sharing-strategy: time-slicing}", "{nvidia.com/gpu: 1}"),
        ('{nvidia.com/gpu.replicas: "4"}', "{nvidia.com/gpu: 1}"),
        ("{cloud.google.com/gke-gpu-sharing-strategy: mps}", "{nvidia.com/gpu: 1}"),
        ('{cloud.google.com/gke-max-shared-clients-per-gpu: "2"}', "{nvidia.com/gpu: 1}"),
    ],
)
def test_a_card_shared_in_time_is_warned_about(selector: str, limits: str) -> None:
    codes = [one.code for one in read(selector, limits).warnings]

    assert "shared_device" in codes


@pytest.mark.parametrize(
    "selector", ["{nvidia.com/gpu.sharing-strategy: none}", '{nvidia.com/gpu.replicas: "1"}']
)
def test_a_card_of_ones_own_is_not_shared(selector: str) -> None:
    assert "shared_device" not in [one.code for one in read(selector).warnings]


def test_a_share_that_nobody_enforces_is_warned_about() -> None:
    counted = read(limits="{}", annotations='{gpu-memory: "2000"}')
    capped = read(limits="{nvidia.com/gpu: 1, nvidia.com/gpumem: 2000}")

    assert "share_not_enforced" in [one.code for one in counted.warnings]
    assert "share_not_enforced" not in [one.code for one in capped.warnings]


def test_a_share_may_be_of_several_cards() -> None:
    # KAI-Scheduler pkg/common/constants: gpu-fraction-num-devices.
    parsed = read(limits="{}", annotations='{gpu-memory: "2000", gpu-fraction-num-devices: "2"}')

    assert parsed.job["hardware"]["devices"] == 2


def test_a_share_of_another_container_is_not_the_trainings() -> None:
    parsed = read(
        limits="{}", annotations='{gpu-fraction: "0.5", gpu-fraction-container-name: other}'
    )

    assert "hardware" not in parsed.job


PRODUCT = "device.attributes['gpu.nvidia.com'].productName"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"


# kubernetes-sigs/dra-driver-nvidia-gpu demo/specs; CEL's own operators.
@pytest.mark.parametrize(
    ("expression", "facts"),
    [
        (f"{PRODUCT} == 'NVIDIA L4'", DeviceFacts(products=("NVIDIA L4",))),
        (f'{PRODUCT}.contains("A100")', DeviceFacts(products=("A100",))),
        (f"{PRODUCT}.lowerAscii().matches('^.*a100.*$')", DeviceFacts(products=("a100",))),
        (
            f"{PRODUCT} in ['NVIDIA L4', 'Tesla T4']",
            DeviceFacts(products=("NVIDIA L4", "Tesla T4")),
        ),
        (
            f"({PRODUCT} == 'NVIDIA L4' || {PRODUCT} == 'Tesla T4') && device.driver == 'gpu.nvidia.com'",
            DeviceFacts(products=("NVIDIA L4", "Tesla T4")),
        ),
        (
            "device.attributes['gpu.nvidia.com'].type == 'mig' &&"
            " device.attributes['gpu.nvidia.com'].profile == '1g.12gb'",
            DeviceFacts(profile="1g.12gb"),
        ),
        (
            f"{MEMORY}.compareTo(quantity('40Gi')) >= 0",
            DeviceFacts(more_than_bytes=40 * GIB),
        ),
        (f"{MEMORY}.isGreaterThan(quantity('80Gi'))", DeviceFacts(more_than_bytes=80 * GIB)),
        (f"{MEMORY}.compareTo(quantity('40Gi')) < 0", DeviceFacts()),
        ("device.attributes['gpu.nvidia.com'].index == 0", DeviceFacts()),
        (f"!({PRODUCT} == 'Tesla T4')", DeviceFacts(is_understood=False)),
        (f"{PRODUCT}.matches('a[13]00')", DeviceFacts(is_understood=False)),
        (
            f"{PRODUCT} == 'NVIDIA L4' || {MEMORY} == quantity('80Gi')",
            DeviceFacts(is_understood=False),
        ),
        (f"{MEMORY} > other", DeviceFacts(is_understood=False)),
        ("(" * 5000, DeviceFacts(is_understood=False)),
        ("'(' == \"&&\"", DeviceFacts()),
        ("", DeviceFacts()),
    ],
)
def test_an_expression_says_what_a_device_must_be(expression: str, facts: DeviceFacts) -> None:
    assert device_facts(expression) == facts


# apimachinery pkg/api/resource/quantity_test.go.
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        (9, 9),
        ("2k", 2000),
        ("4Gi", 4 * GIB),
        ("1e3", 1000),
        ("1E", 10**18),
        ("8000m", 8),
        ("1.5Gi", 3 * 2**29),
        ("8 Gi", None),
        ("eight", None),
        ("", None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_a_quantity_is_the_number_it_stands_for(text: object, number: int | None) -> None:
    assert quantity(text) == number
