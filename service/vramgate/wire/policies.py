"""A tenant's admission policy as it is sent, and its versions as they are shown."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from vramgate.admission.decision import Channel, Mode
from vramgate.admission.documents import SCOPE_FIELDS, policy_document
from vramgate.admission.faults import faults_in, unknown_accelerators
from vramgate.admission.policy import (
    DEFAULT_DENY_PROBABILITY,
    DEFAULT_RISK,
    WEEK_SECONDS,
    AdmissionPolicy,
    CapacityMap,
    Exemption,
    PolicyRule,
    Scope,
    UnknownModels,
)
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.errors import FieldError
from vramgate.wire.job_parts import WireIn
from vramgate.wire.numbers import NUMBER, WHOLE
from vramgate.wire.plain_text import PLAIN
from vramgate.wire.report_lists import UtcMoment
from vramgate.wire.validation import MAX_FIELDS, ValidationFailedError

MAX_RULES = 200
MAX_EXEMPTIONS = 1000
MAX_MAP = 1000
MAX_SUBMITTERS = 100
MAX_NAME = 64
MAX_PATTERN = 256
MAX_NOTE = 500
MAX_VERSION = 64
VERSION_PATTERN = "^[a-z0-9-]+$"
MAX_CHARACTERS = 2**20
"""Of one document; a thousand exemptions take some 300 000."""
SHORTEST_TOKEN_SECONDS = 300
LONGEST_TOKEN_SECONDS = 90 * 24 * 3600
_LAST_YEAR = 2099


def _of_this_century(moment: datetime) -> datetime:
    if moment.year > _LAST_YEAR:
        raise PydanticCustomError("moment", "The time should be of this century")
    return moment


Until: TypeAlias = Annotated[UtcMoment, AfterValidator(_of_this_century)]
Name: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_NAME), PLAIN
]
Pattern: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_PATTERN), PLAIN
]
"""Takes ``*`` and ``?`` where it is a pattern."""
Note: TypeAlias = Annotated[str, StringConstraints(strict=True, max_length=MAX_NOTE), PLAIN]
Why: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_NOTE), PLAIN
]
Modes: TypeAlias = Annotated[list[Mode], Field(max_length=len(Mode))]
Risk: TypeAlias = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False), NUMBER]
DenyProbability: TypeAlias = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), NUMBER]
Cards: TypeAlias = Annotated[dict[Pattern, Pattern], Field(max_length=MAX_MAP)]


class ScopeIn(WireIn):
    """Which questions a part of a policy is about; what is left out leaves it open.

    Texts are patterns: `*` stands for any text, `?` for one character. A question that does not say
    something matches no pattern of it.
    """

    cluster: Pattern | None = None
    queue: Pattern | None = None
    channel: Channel | None = Field(default=None, description="Through which door it was asked.")
    submitter: Pattern | None = None
    external_id: Pattern | None = None
    model: Pattern | None = Field(default=None, description="The catalog's name of the model.")

    def scope(self) -> Scope:
        """Return the questions that are meant."""
        return Scope(**{name: getattr(self, name) for name in SCOPE_FIELDS})


class RuleIn(ScopeIn):
    """What holds instead for some questions; the first rule that covers one counts."""

    name: Name
    until: Until | None = Field(default=None, description="From then on it does nothing; RFC 3339.")
    mode: Mode | None = None
    caller_may_choose: Modes | None = None
    risk: Risk | None = None
    deny_probability: DenyProbability | None = None
    unknown_models: UnknownModels | None = None

    def to_domain(self) -> PolicyRule:
        """Return the rule."""
        chosen = self.caller_may_choose
        return PolicyRule(
            name=self.name,
            scope=self.scope(),
            until=self.until,
            mode=self.mode,
            caller_may_choose=None if chosen is None else frozenset(chosen),
            risk=self.risk,
            deny_probability=self.deny_probability,
            unknown_models=self.unknown_models,
        )


class ExemptionIn(ScopeIn):
    """Jobs that are let through whatever the verdict is, until a moment."""

    name: Name
    until: Until = Field(description="When it ends; RFC 3339.")
    reason: Why

    def to_domain(self) -> Exemption:
        """Return the exemption."""
        return Exemption(name=self.name, scope=self.scope(), until=self.until, reason=self.reason)


class CapacityIn(WireIn):
    """The cards behind a site's own words, for jobs that name none."""

    queues: Cards = Field(
        default_factory=dict, description="Queue or partition to the catalog's name of its card."
    )
    node_labels: Cards = Field(
        default_factory=dict, description="`label=value` of a node to the name of its card."
    )


class BreakGlassIn(WireIn):
    """Who may have any job let through by saying why; each use is in the audit trail."""

    submitters: Annotated[list[Pattern], Field(max_length=MAX_SUBMITTERS)] = Field(
        default_factory=list, description="Patterns of submitters."
    )


class PolicyIn(WireIn):
    """What a tenant wants of admissions; every field may be left out."""

    mode: Mode = Mode.WARN
    caller_may_choose: Modes = Field(
        default_factory=list, description="Modes that a question may ask for instead."
    )
    risk: Risk = Field(
        default=DEFAULT_RISK, description="Allowed is what runs out of memory at most this often."
    )
    deny_probability: DenyProbability = Field(
        default=DEFAULT_DENY_PROBABILITY,
        description="Denied is what runs out of memory at least this often.",
    )
    unknown_models: UnknownModels = UnknownModels.WARN
    capacity: CapacityIn = CapacityIn()
    rules: Annotated[list[RuleIn], Field(max_length=MAX_RULES)] = Field(default_factory=list)
    exemptions: Annotated[list[ExemptionIn], Field(max_length=MAX_EXEMPTIONS)] = Field(
        default_factory=list
    )
    break_glass: BreakGlassIn = BreakGlassIn()
    report_token_seconds: Annotated[
        int, Field(ge=SHORTEST_TOKEN_SECONDS, le=LONGEST_TOKEN_SECONDS), WHOLE
    ] = Field(
        default=WEEK_SECONDS, description="How long a job may report with its answer's token."
    )

    def to_domain(self, *, version: str, at: str = "") -> AdmissionPolicy:
        """Return the policy; ``at`` is where it stands in what was sent.

        Raises:
            ValidationFailedError: its fields contradict each other; each is named.
        """
        policy = AdmissionPolicy(
            version=version,
            mode=self.mode,
            caller_may_choose=frozenset(self.caller_may_choose),
            risk=self.risk,
            deny_probability=self.deny_probability,
            unknown_models=self.unknown_models,
            capacity=CapacityMap(
                queues=self.capacity.queues, node_labels=self.capacity.node_labels
            ),
            rules=tuple(rule.to_domain() for rule in self.rules),
            exemptions=tuple(one.to_domain() for one in self.exemptions),
            break_glass_submitters=tuple(self.break_glass.submitters),
            report_token_seconds=self.report_token_seconds,
        )
        check_faults(faults_in(policy), at=at)
        return policy


def checked_policy(
    given: PolicyIn, accelerators: AcceleratorCatalog, *, at: str = ""
) -> AdmissionPolicy:
    """Return the policy that was sent, if it can be kept.

    Raises:
        ValidationFailedError: its fields contradict each other, a card is not in the catalog, or
            all of it together is too long.
    """
    policy = given.to_domain(version="", at=at)
    check_faults(unknown_accelerators(policy, accelerators), at=at)
    characters = len(json.dumps(policy_document(policy), ensure_ascii=False))
    if characters > MAX_CHARACTERS:
        detail = f"may have {MAX_CHARACTERS:,} characters as JSON, not {characters:,}"
        check_faults([FieldError(pointer="", code="too_long", detail=detail)], at=at)
    return policy


def check_faults(faults: Iterable[FieldError], *, at: str = "") -> None:
    """Raise where there are faults; ``at`` is where the policy stands in what was sent.

    Raises:
        ValidationFailedError: there are some; each is named.
    """
    found = [
        FieldError(pointer=f"{at}{one.pointer}", code=one.code, detail=one.detail, value=one.value)
        for one in faults
    ]
    if found:
        more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
        raise ValidationFailedError(
            f"{found[0].pointer or 'The policy'}: {found[0].detail}{more}.",
            fields=found[:MAX_FIELDS],
        )


class PolicyRequest(WireIn):
    """A policy to be kept as a draft."""

    policy: PolicyIn
    note: Note = Field(default="", description="Why, for whoever reads the history.")


class LintRequest(WireIn):
    """A policy to be looked at."""

    policy: PolicyIn


class FindingOut(BaseModel):
    """Something that is allowed and probably not meant."""

    model_config = ConfigDict(from_attributes=True)

    code: str
    message: str
    pointer: str = Field(description="JSON pointer into the policy.")


class LintOut(BaseModel):
    """A policy that could be kept, and what its author probably did not mean."""

    valid: Literal[True]
    warnings: list[FindingOut]


class PolicySummaryOut(BaseModel):
    """One version of a tenant's policy, without its document."""

    model_config = ConfigDict(from_attributes=True)

    version: str = Field(
        description="Names exactly one document; `default` is what holds where none is active."
    )
    status: Literal["draft", "active", "retired"]
    note: str
    created_at: datetime | None = Field(description="null: it is built in.")
    created_by: str | None
    activated_at: datetime | None = Field(description="When it was last activated.")
    activated_by: str | None
    retired_at: datetime | None
    active_version: str = Field(description="The version that holds now.")


class PolicyOut(PolicySummaryOut):
    """One version of a tenant's policy."""

    policy: dict[str, Any] = Field(
        description="The document, with everything that was left out; as it is sent."
    )
    warnings: list[FindingOut] = Field(description="What its author probably did not mean.")
