"""The policy that a file holds, as ``vramgate policy`` takes it."""

from dataclasses import replace
from pathlib import Path

from vramgate.admission.documents import policy_document, version_named_by
from vramgate.admission.policy import DEFAULT_POLICY, AdmissionPolicy
from vramgate.catalog.accelerators import AcceleratorCatalog
from vramgate.cli.policy_files import read_policy, usable_policy
from vramgate.json_text import canonical, digest_of


def policy_in(path: Path | None, accelerators: AcceleratorCatalog) -> AdmissionPolicy:
    """Return the policy of a file, named as the service names a document; without one, the default.

    Raises:
        UnreadableFileError: it cannot be read.
        UnreadableLaunchError: it is neither YAML nor JSON.
        ValidationFailedError: it is no policy, or one that could not be kept.
    """
    if path is None:
        return DEFAULT_POLICY
    policy = usable_policy(read_policy(path), path, accelerators)
    digest = digest_of(canonical(policy_document(policy)))
    return replace(policy, version=version_named_by(digest))
