"""What is offered, in which order, how much is tried, and when nothing is."""

import pytest

from tests.changes.changing import (
    ALL,
    CARD,
    Asked,
    Json,
    a_full_job,
    changes_of,
    described,
    kinds,
    on_card_for,
    on_card_of,
    required_bytes,
)
from vramgate.changes.change import ChangeKind
from vramgate.changes.order import CHANGES_LEARNING, CHANGES_MORE, KEEPS_RESULTS
from vramgate.changes.trials import MOST_ESTIMATES
from vramgate.units import GIB


def logits_job() -> Json:
    """Return a job whose logits are its peak, on a card of 31 GiB.

    16.1 GB of weights stay whatever its batch and its loss are, and are 10 GB less in 4 bits; the
    logits of 8,192 tokens, 128,256 wide, are 4.2 GB in fp32, and their gradient is as much.
    """
    job = a_full_job(
        method="lora", activation_checkpointing="full", micro_batch_size=2, loss="standard"
    )
    return on_card_of(job, 31 * GIB)


def test_fused_loss_comes_before_a_smaller_batch_and_that_before_another_method() -> None:
    found = [kind[0] for kind in kinds(changes_of(logits_job()))]
    wanted = [ChangeKind.LOSS, ChangeKind.BATCH, ChangeKind.METHOD]
    assert [kind for kind in found if kind in wanted] == wanted


def test_every_kind_has_one_place_in_the_order() -> None:
    ladders = (*KEEPS_RESULTS, *CHANGES_LEARNING, *CHANGES_MORE)
    assert [ladder.kind for ladder in ladders] == list(ChangeKind)


def test_as_many_are_offered_as_asked_for_and_those_are_the_smallest() -> None:
    every = kinds(changes_of(logits_job()))
    assert len(every) > 2
    for most in range(ALL):
        assert kinds(changes_of(logits_job(), most=most)) == every[:most]


def test_nothing_is_offered_for_a_job_that_fits() -> None:
    job = a_full_job(method="lora", micro_batch_size=1)
    assert changes_of(on_card_for(job)) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"hardware": {"devices": 1}},
        {"hardware": {"accelerator": "no such card"}},
        {"model": {"name": "nobody/knows-it"}},
        {"activation_checkpointing": {"mode": "none", "offload": True}},
    ],
)
def test_nothing_is_offered_without_a_card_or_a_job(fields: Json) -> None:
    assert changes_of(a_full_job(**fields)) == ()


def test_a_card_known_by_its_memory_alone_is_not_exchanged() -> None:
    """Whose it is decides what runs on it: no allocator setting, no other card."""
    job = a_full_job(hardware={"device_memory_bytes": 60 * 10**9})
    found = [kind for change in changes_of(job) for kind in change.kinds]
    assert ChangeKind.BATCH in found
    assert {ChangeKind.ALLOCATOR, ChangeKind.ACCELERATOR}.isdisjoint(found)


def two_needed() -> Json:
    """Return a job that fits with a fused loss and full checkpointing, and with neither alone."""
    job = a_full_job(
        method="lora", micro_batch_size=1, sequence_length=16384, loss="standard", task="pretrain"
    )
    return on_card_for(job, loss="fused_linear", activation_checkpointing="full")


def test_changes_are_taken_together_where_none_is_enough() -> None:
    first = changes_of(two_needed())[0]
    assert first.kinds == (ChangeKind.LOSS, ChangeKind.CHECKPOINTING)
    assert first.text == (
        "Set loss to fused_linear and activation_checkpointing to full: none of them can be left out."
    )


def test_changes_taken_together_cost_the_product() -> None:
    """The fused loss costs nothing; LoRA's forward pass twice is 3/2."""
    first = changes_of(two_needed())[0]
    assert first.slowdown == pytest.approx(1.0 * 3 / 2)
    assert "; the forward pass runs twice" in first.cost


def test_changes_taken_together_are_each_needed() -> None:
    change = changes_of(two_needed())[0]
    job = two_needed()
    without_loss = {**job, "activation_checkpointing": "full"}
    without_checkpoints = {**job, "loss": "fused_linear"}
    for less in (without_loss, without_checkpoints):
        needed = required_bytes(described(less))
        assert 1.2 * needed > job["hardware"]["device_memory_bytes"]
    assert (
        1.2 * int(change.memory.peak.required_bytes) <= job["hardware"]["device_memory_bytes"] + 1
    )


def test_another_method_is_joined_by_what_it_still_needs() -> None:
    """13 B parameters are 26 GB in 16 bits and 7 GB in 4; eight rows keep tens of GB more.

    Unsloth's models are sharded by no engine, so nothing that keeps the results takes weights off
    the card.
    """
    job = a_full_job(
        model={"name": "meta-llama/Llama-2-13b-hf"},
        method="lora",
        micro_batch_size=8,
        activation_checkpointing="none",
        software={"framework": "unsloth"},
    )
    joined = changes_of(on_card_of(job, 20 * GIB))[0]
    assert joined.kinds[-1] is ChangeKind.METHOD
    assert len(joined.kinds) > 1
    assert joined.description.method.kind == "qlora"


def test_what_leaves_the_weights_is_not_tried_where_they_alone_are_too_much() -> None:
    """70 B parameters are 141 GB in 16 bits, on a card of 80 GB.

    Estimates: the job itself, the two offloading stages that ZeRO has, the base in 4 bits, and the two
    larger cards that are offered at most.
    """
    job = a_full_job(
        model={"name": "meta-llama/Llama-3.1-70B"},
        method="lora",
        micro_batch_size=1,
        sequence_length=512,
        activation_checkpointing="full",
    )
    asked = Asked()
    found = {kind for change in changes_of(job, may_go_on=asked) for kind in change.kinds}
    assert found == {ChangeKind.OFFLOAD, ChangeKind.METHOD, ChangeKind.ACCELERATOR}
    assert asked.times <= 1 + 2 + 1 + 2


def test_nothing_is_tried_once_the_caller_says_stop() -> None:
    assert changes_of(logits_job(), may_go_on=Asked(0)) == ()


@pytest.mark.parametrize("allowed", range(1, 16))
def test_what_was_found_before_the_stop_is_returned(allowed: int) -> None:
    """The first estimate is of the job itself."""
    whole = kinds(changes_of(logits_job()))
    found = changes_of(logits_job(), may_go_on=Asked(allowed))
    assert kinds(found) == whole[: len(found)]
    assert all(change.check.oom_probability is not None for change in found)


def test_a_job_that_nothing_helps_is_given_up_within_the_bound() -> None:
    """70 B parameters trained from scratch on one card of 4 GB."""
    job = a_full_job(
        model={"name": "meta-llama/Llama-3.1-70B"},
        task="pretrain",
        precision="bf16-mixed",
        micro_batch_size=2**15,
        hardware={"accelerator": CARD, "devices": 8},
    )
    asked = Asked()
    found = changes_of(on_card_of(job, 4 * 10**9), may_go_on=asked)
    assert found == ()
    assert asked.times <= MOST_ESTIMATES
