"""What keeps a policy from being stored. Pointers lead into its document."""

from collections.abc import Iterator, Sequence

from vramgate.admission.patterns import is_for_anything
from vramgate.admission.policy import AdmissionPolicy, Exemption, PolicyRule, Scope
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.errors import FieldError, UnknownNameError
from vramgate.json_text import pointer


def faults_in(policy: AdmissionPolicy) -> Iterator[FieldError]:
    """Yield what a policy's fields say together and no policy may say."""
    yield from _repeated_names("rules", policy.rules)
    yield from _repeated_names("exemptions", policy.exemptions)
    yield from _crossed_thresholds(policy)
    for index, exemption in enumerate(policy.exemptions):
        if _is_for_everything(exemption.scope):
            yield FieldError(
                pointer=pointer("exemptions", index),
                code="exempts_everything",
                detail="would let every job through: say whom it is for by submitter, queue, "
                "external_id, model, cluster or channel (a lone * says nothing); "
                "to let every job through, set mode to shadow",
                value=exemption.name,
            )


def unknown_accelerators(
    policy: AdmissionPolicy, accelerators: AcceleratorCatalog
) -> Iterator[FieldError]:
    """Yield the cards of the capacity map that the catalog does not know, with those it may mean."""
    capacity = policy.capacity
    for part, cards in (("queues", capacity.queues), ("node_labels", capacity.node_labels)):
        for key, name in cards.items():
            try:
                accelerators.resolve(name)
            except UnknownNameError as error:
                hint = f"{error.hint[:1].lower()}{error.hint[1:]}".rstrip(".")
                yield FieldError(
                    pointer=pointer("capacity", part, key),
                    code="unknown_accelerator",
                    detail=f"{error.message}; {hint}",
                    value=name,
                )


def _repeated_names(part: str, parts: Sequence[PolicyRule | Exemption]) -> Iterator[FieldError]:
    first_of: dict[str, int] = {}
    for index, one in enumerate(parts):
        first = first_of.setdefault(one.name, index)
        if first != index:
            yield FieldError(
                pointer=pointer(part, index, "name"),
                code="repeated_name",
                detail=f"is the name of {pointer(part, first)} already; give each its own",
                value=one.name,
            )


def _crossed_thresholds(policy: AdmissionPolicy) -> Iterator[FieldError]:
    if policy.risk >= policy.deny_probability:
        yield _crossed("/risk", risk=policy.risk, deny_probability=policy.deny_probability)
    for index, rule in enumerate(policy.rules):
        risk = policy.risk if rule.risk is None else rule.risk
        deny = rule.deny_probability
        deny = policy.deny_probability if deny is None else deny
        if risk >= deny and (rule.risk is not None or rule.deny_probability is not None):
            name = "deny_probability" if rule.risk is None else "risk"
            yield _crossed(pointer("rules", index, name), risk=risk, deny_probability=deny)


def _crossed(where: str, *, risk: float, deny_probability: float) -> FieldError:
    return FieldError(
        pointer=where,
        code="risk_not_below_deny_probability",
        detail=f"risk {risk:g} must be less than deny_probability {deny_probability:g}: "
        "no job can be allowed and denied at once",
        value=risk if where.endswith("/risk") else deny_probability,
    )


def _is_for_everything(scope: Scope) -> bool:
    patterns = (scope.cluster, scope.queue, scope.submitter, scope.external_id, scope.model)
    return scope.channel is None and all(
        pattern is None or is_for_anything(pattern) for pattern in patterns
    )
