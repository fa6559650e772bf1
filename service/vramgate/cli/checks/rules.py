"""What the codes of reasons mean, for readers of reports who have nothing else."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """A code explained: what it says, and what to do about it."""

    short: str
    way_out: str


_RULES = {
    "fits": Rule("The job fits.", "Nothing needs to be done."),
    "peak_exceeds_capacity": Rule(
        "The job needs more memory than its card gives.",
        "Take one of the changes that fit, or a card with more memory.",
    ),
    "peak_may_exceed_capacity": Rule(
        "The job may run out of memory: the risk is above the policy's.",
        "Take one of the changes that fit, or accept the risk.",
    ),
    "critical_fields_unknown": Rule(
        "The job probably needs more memory than its card gives, but what decides was not said.",
        "Say the fields that are named as unknown.",
    ),
    "unknown_model": Rule(
        "The catalog does not know the model.",
        "Give model.config, the model's config.json, or add the model to the site's catalog.",
    ),
    "unknown_accelerator": Rule(
        "The catalog does not know the card.",
        "Name another card, or add it to the site's catalog.",
    ),
    "unknown_capacity": Rule(
        "Nobody said which card the job gets.",
        "Name it in the job or with --accelerator, or map the queue to it in the policy.",
    ),
    "invalid_job": Rule(
        "The job contradicts itself; no card of any size would run it.",
        "Change the fields that are named.",
    ),
    "incomplete_launch": Rule(
        "What the peak depends on is said out of sight.",
        "Add the files or the variables that are named.",
    ),
    "unreadable_launch": Rule(
        "The file is not what it should be: a shell script, a manifest, a configuration.",
        "Mend it where the message says.",
    ),
    "too_few_devices": Rule(
        "Fewer devices of known capacity are offered than the job takes.",
        "Offer as many as the job takes of a node.",
    ),
    "out_of_time": Rule(
        "There was no time left to check the file.", "Give more time with --timeout."
    ),
    "unreadable_file": Rule(
        "The file is not there, too large, or not text.", "Name another, or make it readable."
    ),
    "unclear_launch": Rule(
        "The file says nothing, or nobody said of which framework it is.",
        "Name the framework with --framework.",
    ),
    "malformed_json": Rule("The file is not JSON.", "Mend it where the message says."),
    "validation_failed": Rule(
        "Fields are missing, unknown, of another type or out of bounds.",
        "Change the fields that are named.",
    ),
}
_OTHER = Rule("The file cannot be checked.", "The message says why.")


def rule_of(code: str) -> Rule:
    """Return what a code means."""
    return _RULES.get(code, _OTHER)
