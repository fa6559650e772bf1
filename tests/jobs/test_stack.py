"""Versions read from the texts people write; the texts are those of the measured cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.jobs.stack import NEWEST, parse_stack, versions_in


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "torch 2.13.0+cu130 / transformers 5.13.1 / peft 0.19.2.dev0",
            {"torch": (2, 13), "transformers": (5, 13), "peft": (0, 19)},
        ),
        ("torch 2.1.1, ms-swift 1.x", {"torch": (2, 1), "ms-swift": (1, 99)}),
        ("unsloth 2024.9. / torch 2.4.1+cu121", {"unsloth": (2024, 9), "torch": (2, 4)}),
        (
            "requirements.txt next to the csv (HEAD: torch 2.4.1, transformers 4.48.1,"
            " peft 0.13.2, trl 0.13.0, bnb 0.43.3)",
            {
                "torch": (2, 4),
                "transformers": (4, 48),
                "peft": (0, 13),
                "trl": (0, 13),
                "bitsandbytes": (0, 43),
            },
        ),
        ("torch 2.7.0a0, torchtitan 0.0.2", {"torch": (2, 7), "torchtitan": (0, 0)}),
        ("torch 2.9.0.dev+rocm6.4", {"torch": (2, 9)}),
        ("torch 2.0, CUDA 11.8", {"torch": (2, 0)}),
        (
            "torch 2.2, transformers 4.38+, bitsandbytes 0.43, peft",
            {"torch": (2, 2), "transformers": (4, 38), "bitsandbytes": (0, 43)},
        ),
        (
            "transformers ~4.15-4.25, torch 1.1x",
            {"transformers": (4, 25), "torch": (1, 19)},
        ),
        ("torch==2.6.0 transformers>=4.51 PyTorch", {"torch": (2, 6), "transformers": (4, 51)}),
        ("PyTorch v2.5", {"torch": (2, 5)}),
        ("my-torch 9.9 torchvision 0.2", {}),
        ("", {}),
    ],
)
def test_reads_the_versions_a_text_names(text: str, named: dict[str, tuple[int, int]]) -> None:
    assert versions_in(text) == named


def test_takes_the_newest_where_nothing_is_named() -> None:
    stack = parse_stack(None)

    assert (stack.torch, stack.transformers, stack.peft) == tuple(NEWEST.values())
    assert [item.component for item in stack.inferred] == ["torch", "transformers", "peft"]


def test_takes_the_releases_of_the_time_that_torch_tells() -> None:
    # torch 2.1 came on 4 October 2023, 2.2 on 30 January 2024; transformers 4.37 on 22 January.
    stack = parse_stack("torch 2.1.0+cu121, bitsandbytes 0.41.1")

    assert stack.transformers == (4, 37)
    assert "torch 2.1 was current" in stack.inferred[0].source


def test_a_release_without_its_minor_is_the_first() -> None:
    assert versions_in("torch 2") == {"torch": (2, 0)}


def test_a_branchs_head_is_dated_by_its_torch() -> None:
    # transformers 4.48 came four months after torch 2.5 had replaced 2.4.
    stack = parse_stack("HEAD: torch 2.4.1, transformers 4.48.1, peft 0.13.2")

    assert (stack.transformers, stack.peft) == ((4, 45), (0, 13))


def test_unnamed_components_have_no_version() -> None:
    assert parse_stack("torch 2.4").version("trl") is None


def test_dates_a_stack_by_unsloths_version() -> None:
    assert parse_stack("unsloth 2024.9").torch == (2, 4)


def test_a_stack_older_than_every_known_one_takes_the_oldest() -> None:
    assert parse_stack("torch 1.4").transformers == (4, 26)
    assert parse_stack("unsloth 2020.1").torch == (1, 13)


@given(st.text(max_size=200) | st.none())
def test_reads_any_text_and_reads_its_own_completion_alike(text: str | None) -> None:
    stack = parse_stack(text)

    again = parse_stack(stack.completed(text))

    assert (again.torch, again.transformers, again.peft) == (
        stack.torch,
        stack.transformers,
        stack.peft,
    )
    assert not again.inferred


def test_a_text_too_long_to_complete_is_replaced_by_its_versions() -> None:
    text = "torch 2.4 " + "x" * 500

    completed = parse_stack(text).completed(text)

    assert len(completed) <= 512
    assert parse_stack(completed).torch == (2, 4)
    assert not parse_stack(completed).inferred
