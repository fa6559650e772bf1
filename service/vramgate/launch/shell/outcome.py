"""How a command ended, as far as that can be told."""

from enum import Enum


class Outcome(Enum):
    """What ``&&``, ``||`` and ``if`` go by."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PRESUMED = "a program, which is presumed to succeed"
    UNDECIDED = "a condition that cannot be told"

    @property
    def is_decided(self) -> bool:
        """Whether it is known."""
        return self in {Outcome.SUCCEEDED, Outcome.FAILED}

    def negated(self) -> "Outcome":
        """Return the outcome of ``! command``."""
        return {
            Outcome.SUCCEEDED: Outcome.FAILED,
            Outcome.FAILED: Outcome.SUCCEEDED,
        }.get(self, Outcome.UNDECIDED)


class Stop(Enum):
    """Why the commands behind are not reached."""

    EXIT = "exit"
    RETURN = "return"
    BREAK = "break"
    CONTINUE = "continue"


def outcome_of(value: bool | None) -> Outcome:  # noqa: FBT001 the value itself
    """Return the outcome of a condition."""
    if value is None:
        return Outcome.UNDECIDED
    return Outcome.SUCCEEDED if value else Outcome.FAILED
