"""The numbers people know come out of the service; where they differ, ``why`` says so."""

import pytest

from tests.costmodel.worked_numbers import NUMBERS, WorkedNumber, answers


@pytest.mark.parametrize("place", range(len(NUMBERS)), ids=[number.said for number in NUMBERS])
def test_the_number_comes_out(place: int) -> None:
    number = NUMBERS[place]
    value = number.answer(answers()[place])
    assert number.at_least <= value <= number.at_most, number.shown(value)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.said)
def test_every_number_says_why(number: WorkedNumber) -> None:
    assert number.why.endswith(".")
