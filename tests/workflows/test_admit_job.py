"""A question answered: what the evidence is, where it comes from, and what would fit instead."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.factories import a_job
from tests.strategies import jobs
from vramgate.accuracy.cases import Kind, bundled_cases
from vramgate.admission.decision import Mode, Verdict
from vramgate.admission.policy import AdmissionPolicy, Asked, CapacityMap, Terms, UnknownModels
from vramgate.admission.ruling import Wish
from vramgate.calibration.versions import UNCALIBRATED
from vramgate.errors import DomainError
from vramgate.units import GIB
from vramgate.wire.admissions import AdmissionAnswer, AdmitRequest
from vramgate.wire.validation import validated
from vramgate.workflows.admission_answers import admission_answer
from vramgate.workflows.admit_job import Admission, admit_job
from vramgate.workflows.load_catalogs import load_catalogs
from vramgate.workflows.read_question import kept_subject, read_subject

CATALOGS = load_catalogs()
ENFORCE = Terms(mode=Mode.ENFORCE)
LARGE = a_job(
    method="full",
    precision="bf16-true",
    optimizer="adamw",
    micro_batch_size=8,
    sequence_length=8192,
    activation_checkpointing="none",
    software={"framework": "transformers"},
)
"""8B parameters × 16 bytes of weights, gradients and two moments in bf16 alone are 64 GB."""


def admitted(
    terms: Terms = ENFORCE,
    capacity: CapacityMap | None = None,
    **question: Any,  # noqa: ANN401 a request's own fields
) -> Admission:
    request = validated(AdmitRequest, question)
    return admit_job(
        read_subject(request, {}),
        terms,
        Wish(mode=request.mode),
        capacity=capacity or CapacityMap(),
        catalogs=CATALOGS,
    )


def answered(admission: Admission) -> AdmissionAnswer:
    return admission_answer(admission, calibration=UNCALIBRATED, inputs_digest="")


def without(job: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name not in fields}


def test_a_job_far_below_its_card_is_allowed() -> None:
    done = admitted(job=a_job())
    assert done.ruling.verdict is Verdict.ALLOW
    assert answered(done).message.startswith("Fits: needs ")


def test_a_job_far_above_its_card_is_denied_with_what_would_fit() -> None:
    answer = answered(admitted(job=LARGE))
    assert (answer.verdict, answer.decision) == (Verdict.DENY, Verdict.DENY)
    assert answer.reason_code == "peak_exceeds_capacity"
    assert answer.message.startswith("Does not fit: needs ")
    assert "a100-sxm4-80gb gives 79.15 GiB" in answer.message
    assert 1 <= len(answer.suggestions) <= 3


@pytest.mark.parametrize("field", ["method", "precision", "micro_batch_size", "sequence_length"])
def test_a_job_without_a_critical_field_is_never_denied(field: str) -> None:
    answer = answered(admitted(job=without(LARGE, field, "software")))
    assert answer.verdict is Verdict.WARN
    assert answer.reason_code == "critical_fields_unknown"
    assert field in {one.field.partition(".")[0] for one in answer.unknown}
    assert field in answer.message


def test_a_framework_that_was_said_stands_for_its_defaults() -> None:
    answer = answered(admitted(job=without(LARGE, "micro_batch_size")))
    assert (answer.verdict, answer.unknown) == (Verdict.DENY, [])


def test_what_has_no_default_stays_open_whatever_the_framework() -> None:
    answer = answered(admitted(job=without(LARGE, "sequence_length")))
    assert [one.field for one in answer.unknown] == ["sequence_length"]


def test_several_devices_without_sharding_are_open() -> None:
    job = {**without(LARGE, "software"), "hardware": {"accelerator": "t4", "devices": 4}}
    fields = {one.field for one in answered(admitted(job=job)).unknown}
    assert fields == {"sharding.implementation", "sharding.zero_stage"}


def test_an_unknown_card_gets_the_peak_and_a_way_out() -> None:
    answer = answered(admitted(job=a_job(hardware={"accelerator": "a1000-sxm"})))
    assert (answer.verdict, answer.reason_code) == (Verdict.WARN, "unknown_accelerator")
    assert answer.peak is not None
    assert answer.capacity is None
    evidence = answer.reasons[0].evidence
    assert evidence["fields"][0]["pointer"] == "/job/hardware/accelerator"
    assert evidence["suggestions"]


def test_a_job_without_a_card_is_asked_for_it() -> None:
    answer = answered(admitted(job=without(a_job(), "hardware")))
    assert (answer.verdict, answer.reason_code) == (Verdict.WARN, "unknown_capacity")
    assert "hardware.accelerator" in answer.message


def test_an_unknown_model_is_what_the_policy_says() -> None:
    job = a_job(model={"name": "nobody/knows-this"})
    deny = replace(ENFORCE, unknown_models=UnknownModels.DENY)
    assert admitted(job=job).ruling.verdict is Verdict.WARN
    assert admitted(deny, job=job).ruling.decision is Verdict.DENY
    assert answered(admitted(job=job)).reason_code == "unknown_model"


def test_an_invalid_job_is_no_lack_of_memory() -> None:
    answer = answered(
        admitted(job=a_job(micro_batch_size=1, parallelism={"tensor_parallel_size": 3}))
    )
    assert (answer.verdict, answer.reason_code) == (Verdict.WARN, "invalid_job")
    assert answer.message.startswith("Invalid job: ")


def test_a_job_of_another_shape_is_refused_at_its_field() -> None:
    with pytest.raises(DomainError) as refused:
        admitted(job={"model": {"name": "gpt2"}, "micro_batch_size": "many"})
    assert [one.pointer for one in refused.value.fields] == ["/job/micro_batch_size"]


def test_a_queue_that_the_policy_maps_names_the_card() -> None:
    capacity = CapacityMap(queues={"big": "h200-sxm-141gb"}, node_labels={"pool=small": "t4"})
    job = without(a_job(), "hardware")
    by_queue = answered(admitted(ENFORCE, capacity, job=job, queue="big"))
    by_label = answered(admitted(ENFORCE, capacity, job=job, node_labels={"pool": "small"}))
    assert by_queue.capacity is not None
    assert by_queue.capacity.accelerator == "h200-sxm-141gb"
    assert by_label.capacity is not None
    assert by_label.capacity.accelerator == "t4"
    assert by_label.assumptions[0].source == "policy: node label pool=small"


def test_devices_that_name_no_card_are_those_of_their_queue() -> None:
    capacity = CapacityMap(queues={"big": "h200-sxm-141gb"})
    devices = [{"id": "0", "used_bytes": 130 * GIB}, {"id": "1", "accelerator": "t4"}]
    answer = answered(
        admitted(ENFORCE, capacity, job=without(a_job(), "hardware"), queue="big", devices=devices)
    )
    assert answer.devices is not None
    assert [one.accelerator for one in answer.devices] == ["h200-sxm-141gb", "t4"]
    assert (answer.verdict, answer.unknown) == (Verdict.DENY, [])
    assert "policy: queue big" in [one.source for one in answer.assumptions]


def test_devices_that_all_name_their_card_need_no_map() -> None:
    capacity = CapacityMap(queues={"big": "h200-sxm-141gb"})
    devices = [{"id": "0", "accelerator": "t4"}]
    answer = answered(
        admitted(ENFORCE, capacity, job=without(a_job(), "hardware"), queue="big", devices=devices)
    )
    assert "policy: queue big" not in [one.source for one in answer.assumptions]


def test_the_partition_of_a_batch_script_is_looked_up_in_the_policys_map() -> None:
    script = (
        "#!/bin/bash\n#SBATCH -p big\n#SBATCH --gpus=1\n"
        "python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --bf16\n"
    )
    capacity = CapacityMap(queues={"big": "h100-sxm5-80gb"})
    answer = answered(admitted(ENFORCE, capacity, launch={"script": script}))
    assert answer.capacity is not None
    assert answer.capacity.accelerator == "h100-sxm5-80gb"


def test_the_node_selector_of_a_pod_is_looked_up_in_the_policys_map() -> None:
    container = {
        "name": "train",
        "command": ["python", "run_clm.py", "--model_name_or_path", "gpt2", "--bf16"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "t"},
        "spec": {"nodeSelector": {"site/pool": "blue"}, "containers": [container]},
    }
    capacity = CapacityMap(node_labels={"site/pool=blue": "l40s"})
    answer = answered(admitted(ENFORCE, capacity, launch={"manifest": pod}))
    assert answer.capacity is not None
    assert answer.capacity.accelerator == "l40s"


def test_offered_devices_are_judged_one_by_one_and_the_best_decides() -> None:
    devices = [
        {"id": "busy", "accelerator": "a100-sxm4-80gb", "used_bytes": 70 * GIB},
        {"id": "free", "accelerator": "a100-sxm4-80gb"},
        {"id": "odd", "accelerator": "abacus"},
    ]
    answer = answered(admitted(job=a_job(), devices=devices))
    assert answer.verdict is Verdict.ALLOW
    assert answer.devices is not None
    assert [(one.id, one.can_take) for one in answer.devices] == [
        ("busy", False),
        ("free", True),
        ("odd", False),
    ]
    assert answer.devices[2].problem


def test_a_device_whose_figures_contradict_each_other_leaves_the_others_their_verdict() -> None:
    devices = [
        {"id": "odd", "total_bytes": 16 * GIB, "accelerator": "t4", "used_bytes": 17 * GIB},
        {"id": "free"},
    ]
    answer = answered(admitted(job=a_job(), devices=devices))
    assert answer.verdict is Verdict.ALLOW
    assert answer.devices is not None
    odd, free = answer.devices
    assert (odd.can_take, free.can_take) == (False, True)
    assert odd.problem is not None
    assert "17.00 GiB" in odd.problem


def test_devices_that_all_contradict_themselves_say_nothing_of_the_job() -> None:
    devices = [{"id": "odd", "total_bytes": GIB, "used_bytes": 2 * GIB}]
    answer = answered(admitted(job=LARGE, devices=devices))
    assert (answer.verdict, answer.reason_code) == (Verdict.WARN, "unknown_capacity")
    assert "2.00 GiB" in answer.message


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (a_job(model={"name": "nobody/knows-this"}), "unknown_model"),
        (a_job(parallelism={"tensor_parallel_size": 7}), "invalid_job"),
    ],
)
def test_of_a_job_that_cannot_be_estimated_every_offered_device_is_told(
    job: dict[str, Any], code: str
) -> None:
    answer = answered(admitted(job=job, devices=[{"id": "0"}, {"id": "1"}]))
    assert answer.reason_code == code
    assert answer.devices is not None
    assert [(one.id, one.can_take, bool(one.problem)) for one in answer.devices] == [
        ("0", False, True),
        ("1", False, True),
    ]


def test_what_is_told_of_a_gap_is_in_whole_sentences() -> None:
    unknown = answered(admitted(job=a_job(hardware={"accelerator": "abacus"})))
    assert unknown.message.startswith("No accelerator in the catalog is called 'abacus'. Needs ")
    invalid = answered(admitted(job=a_job(parallelism={"tensor_parallel_size": 7})))
    assert invalid.message.endswith(". Try 4 or 8.")
    full = [{"id": "0", "total_bytes": GIB, "used_bytes": 2 * GIB}]
    assert answered(admitted(job=a_job(), devices=full)).message.startswith("occupied_bytes are ")


def test_a_mig_slice_is_a_device_of_its_own_size() -> None:
    devices = [{"id": "slice", "accelerator": "NVIDIA A100-SXM4-80GB MIG 1g.10gb"}]
    answer = answered(admitted(job=LARGE, devices=devices))
    assert answer.verdict is Verdict.DENY
    assert answer.capacity is not None
    assert answer.capacity.usable_bytes < 10 * GIB


def test_too_few_devices_are_told() -> None:
    job = a_job(hardware={"accelerator": "t4", "devices": 4}, sharding={"implementation": "ddp"})
    answer = answered(admitted(job=job, devices=[{"id": "0"}, {"id": "1"}]))
    assert (answer.verdict, answer.reason_code) == (Verdict.WARN, "too_few_devices")
    assert "needs 4 devices" in answer.message


def test_a_launch_that_hides_what_its_peak_depends_on_warns_and_names_it() -> None:
    launch = {"command": "deepspeed train.py --model_name_or_path gpt2 --deepspeed ds.json"}
    answer = answered(admitted(launch=launch, hardware={"accelerator": "t4"}))
    assert (answer.verdict, answer.reason_code) == (Verdict.WARN, "incomplete_launch")
    assert answer.unknown


def test_a_launch_that_cannot_be_read_warns() -> None:
    answer = answered(admitted(launch={"script": "python train.py 'never closed"}))
    assert (answer.verdict, answer.reason_code) == (Verdict.WARN, "unreadable_launch")


def test_secrets_of_a_launch_are_in_no_document() -> None:
    token = "hf_" + "a" * 34
    launch = {
        "command": f"WANDB_API_KEY={'0' * 40} python run_clm.py --model_name_or_path gpt2 "
        f"--hub_token {token} --config_file /gone/{token}.yaml",
    }
    subject = read_subject(validated(AdmitRequest, {"launch": launch}), {})
    assert token not in str(subject.document)
    assert "0" * 40 not in str(subject.document)


@pytest.mark.parametrize(
    "question",
    [
        {"job": a_job()},
        {"job": LARGE, "devices": [{"id": "a", "accelerator": "t4", "used_bytes": 5}]},
        {"job": without(a_job(), "hardware"), "queue": "big"},
        {"launch": {"command": "deepspeed train.py --model_name_or_path gpt2 --deepspeed ds.json"}},
        {
            "launch": {
                "command": "torchrun --nproc_per_node 2 run_clm.py --model_name_or_path gpt2"
            },
            "hardware": {"accelerator": "t4"},
        },
    ],
)
def test_what_is_kept_of_a_question_gives_the_same_verdict_again(question: dict[str, Any]) -> None:
    capacity = CapacityMap(queues={"big": "h100-sxm5-80gb"})
    first = admitted(ENFORCE, capacity, **question)
    again = admit_job(
        kept_subject(first.subject.document),
        ENFORCE,
        Wish(),
        capacity=capacity,
        catalogs=CATALOGS,
    )
    assert again.ruling == first.ruling
    assert again.finding.check == first.finding.check


@given(job=jobs(), factor=st.integers(1, 40))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_a_smaller_card_never_turns_deny_into_allow(job: dict[str, Any], factor: int) -> None:
    job = {**job, "hardware": {"accelerator": "a100-sxm4-80gb"}}
    devices = [{"id": "card", "used_bytes": factor * GIB}]
    whole = _tried(job=job, devices=[{"id": "card", "used_bytes": 0}])
    less = _tried(job=job, devices=devices)
    assume(whole is not None and less is not None)
    order = [Verdict.ALLOW, Verdict.WARN, Verdict.DENY]
    assert whole is not None
    assert less is not None
    assert order.index(less.ruling.verdict) >= order.index(whole.ruling.verdict)


@given(job=jobs())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_every_suggestion_fits_at_the_policys_risk(job: dict[str, Any]) -> None:
    job = {**job, "hardware": {"accelerator": "l4"}}
    done = _tried(job=job)
    assume(done is not None)
    assert done is not None
    for one in done.suggestions:
        probability = one.check.oom_probability
        assert probability is not None
        assert probability <= ENFORCE.risk


def test_the_same_question_gets_the_same_answer_from_another_process_state() -> None:
    other = load_catalogs()
    request = validated(AdmitRequest, {"job": LARGE, "mode": "enforce"})
    texts = set()
    for catalogs in (CATALOGS, other):
        done = admit_job(
            read_subject(request, {}),
            ENFORCE,
            Wish(mode=request.mode),
            capacity=CapacityMap(),
            catalogs=catalogs,
        )
        texts.add(answered(done).model_dump_json())
    assert len(texts) == 1


def test_public_runs_are_judged_within_the_promised_shares() -> None:
    """Of runs that died ≤ 8 % are allowed; of runs that lived ≤ 8 % are denied and ≤ 20 % warned of."""
    policy = AdmissionPolicy(mode=Mode.ENFORCE)
    terms = policy.terms(Asked(), datetime(2026, 11, 29, tzinfo=UTC))
    died: list[Verdict] = []
    lived: list[Verdict] = []
    for case in bundled_cases().measured:
        request = validated(AdmitRequest, {"job": case.job})
        done = admit_job(
            read_subject(request, {}),
            terms,
            Wish(),
            capacity=policy.capacity,
            catalogs=CATALOGS,
            may_go_on=lambda: False,
        )
        (died if case.kind is Kind.OOM else lived).append(done.ruling.decision)
    assert died.count(Verdict.ALLOW) <= 0.08 * len(died)
    assert lived.count(Verdict.DENY) <= 0.08 * len(lived)
    assert lived.count(Verdict.WARN) <= 0.20 * len(lived)


def _tried(**question: Any) -> Admission | None:  # noqa: ANN401 a request's own fields
    done = admitted(**question)
    return done if done.finding.evidence.gap is None else None
