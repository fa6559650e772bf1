"""The policy that a file holds, as ``vramgate policy`` takes it."""

from dataclasses import replace
from pathlib import Path

from vramgate.admission.documents import policy_document, version_named_by
from vramgate.admission.policy import DEFAULT_POLICY, AdmissionPolicy
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.cli.policy_files import read_policy
from vramgate.json_text import canonical, digest_of
from vramgate.wire.policies import PolicyIn, checked_policy
from vramgate.wire.validation import validated
from vramgate.workflows.check_job import Overrides


def policy_in(path: Path | None, accelerators: AcceleratorCatalog) -> AdmissionPolicy:
    """Return the policy of a file, named as the service names a document; without one, the default.

    Raises:
        UnreadableFileError: it cannot be read.
        UnreadableLaunchError: it is neither YAML nor JSON.
        ValidationFailedError: it is no policy, or one that could not be kept.
    """
    if path is None:
        return DEFAULT_POLICY
    policy = checked_policy(read_policy(path), accelerators)
    digest = digest_of(canonical(policy_document(policy)))
    return replace(policy, version=version_named_by(digest))


def check_overrides(overrides: Overrides, policy: AdmissionPolicy) -> None:
    """Raise where the overrides leave no room between what is allowed and what is denied.

    Raises:
        ValidationFailedError: they do, or are no probabilities.
    """
    terms = {"risk": policy.risk, "deny_probability": policy.deny_probability}
    given = {name: getattr(overrides, name) for name in terms}
    said = {name: value for name, value in given.items() if value is not None}
    if said:
        validated(PolicyIn, {**terms, **said}).to_domain(version="")
