"""Options that no file could be checked with, refused before any is read."""

from collections.abc import Iterator
from contextlib import contextmanager

from vramgate.admission.policy import AdmissionPolicy
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.cli.checks.question import Said
from vramgate.errors import DomainError, FieldError, UnknownNameError
from vramgate.wire.admissions import AdmitRequest
from vramgate.wire.policies import PolicyIn
from vramgate.wire.validation import ValidationFailedError, validated
from vramgate.workflows.check_job import Overrides

_ENV = "/launch/env"
_ANY_LAUNCH = {"command": "true"}


class UnusableOptionError(DomainError):
    """An option has a value that holds for no file."""

    code = "unusable_option"


def check_options(
    said: Said, overrides: Overrides, policy: AdmissionPolicy, accelerators: AcceleratorCatalog
) -> None:
    """Raise where what the options say is out of bounds, unknown, or at odds with the policy.

    Raises:
        UnusableOptionError: it is; the option is named.
    """
    with _as_options():
        launch = {**_ANY_LAUNCH, "env": dict(said.env)}
        hardware = dict(said.hardware)
        validated(AdmitRequest, {"launch": launch, "hardware": hardware, **said.question})
    card = said.hardware.get("accelerator")
    if isinstance(card, str):
        _check_card(card, accelerators)
    terms = {"risk": policy.risk, "deny_probability": policy.deny_probability}
    given = {name: getattr(overrides, name) for name in terms}
    named = {name: value for name, value in given.items() if value is not None}
    if named:
        with _as_options():
            validated(PolicyIn, {**terms, **named}).to_domain(version="")


def _check_card(name: str, accelerators: AcceleratorCatalog) -> None:
    try:
        accelerators.resolve(name)
    except UnknownNameError as error:
        raise UnusableOptionError(
            f"--accelerator: {error.message.rstrip('.')}.", hint=error.hint
        ) from None


@contextmanager
def _as_options() -> Iterator[None]:
    """Name the option in what is wrong with a field."""
    try:
        yield
    except ValidationFailedError as error:
        first = error.fields[0]
        # What a variable holds may be a secret.
        detail = first.detail.partition("; got ")[0] if _is_variable(first) else first.detail
        raise UnusableOptionError(f"{_option(first.pointer)}: {detail}.") from None


def _is_variable(field: FieldError) -> bool:
    return field.pointer.startswith(_ENV)


def _option(pointer: str) -> str:
    """Return the option that says a field.

    >>> _option("/hardware/accelerator"), _option("/deny_probability"), _option("/launch/env/A")
    ('--accelerator', '--deny-probability', '--env A')
    """
    if pointer.startswith(_ENV):
        return f"--env {pointer.removeprefix(_ENV).strip('/')}".rstrip()
    return f"--{pointer.rpartition('/')[2].replace('_', '-')}"
