"""Every kind of problem: its status, and what its page says."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """A kind of problem: its status, and what its page says."""

    code: str
    status: int
    title: str
    description: str
    retry_after_seconds: int | None = None
    """What the Retry-After header says, where asking again the same way may work."""


_KINDS = (
    ProblemKind(
        code="validation_failed",
        status=422,
        title="Fields are missing, unknown or out of bounds",
        description="`errors` names each field by a JSON pointer into the body that was sent, "
        "says what it must be, and repeats the value where it is short.",
    ),
    ProblemKind(
        code="invalid_parameter",
        status=422,
        title="A parameter of the address is not what it must be",
        description="`errors` names each query, path or header parameter and what it must be.",
    ),
    ProblemKind(
        code="invalid_job",
        status=422,
        title="The job contradicts itself or its model",
        description="No card of any size would run this job: its fields exclude each other, or "
        "a size does not divide what it must. `errors` names the fields, `hint` the way out.",
    ),
    ProblemKind(
        code="invalid_model_config",
        status=422,
        title="The config.json cannot be read as a model",
        description="Keys that the model's family needs are missing or contradict each other.",
    ),
    ProblemKind(
        code="invalid_site_catalog",
        status=422,
        title="The site's catalog cannot be used",
        description="`errors` lists everything wrong with it; nothing of it was taken.",
    ),
    ProblemKind(
        code="unknown_name",
        status=422,
        title="The catalog has nothing of this name",
        description="`suggestions` lists near names. A model that is not in the catalog can be "
        'described by its config.json: `{"model": {"config": {...}}}`.',
    ),
    ProblemKind(
        code="impossible_measurement",
        status=422,
        title="No card could have measured this",
        description="A peak is above the card's memory, or tensors took more than the allocator "
        "reserved. `errors` has the figures.",
    ),
    ProblemKind(
        code="unknown_decision",
        status=422,
        title="There is no such decision",
        description="Send the job instead of `decision_id`.",
    ),
    ProblemKind(
        code="other_decision",
        status=422,
        title="The report is not of its token's decision",
        description="A `report_token` stands for the decision that it was given with. Leave "
        "`decision_id` out, or send the report with a token that is for it.",
    ),
    ProblemKind(
        code="other_run",
        status=409,
        title="Another run reports under the decision",
        description="One admission is for one run: the first that reports under it, with all its "
        "ranks. Nothing of the second was taken.",
    ),
    ProblemKind(
        code="decision_not_stored_yet",
        status=503,
        title="The decision is not stored yet",
        description="It was made while the database was away, and is stored once that is back. "
        "Nothing of the reports was taken; send the same again after `Retry-After` seconds.",
        retry_after_seconds=10,
    ),
    ProblemKind(
        code="reports_refused",
        status=422,
        title="None of the reports could be taken",
        description="`items` holds the problem of each report, in order; nothing was stored.",
    ),
    ProblemKind(
        code="idempotency_key_reused",
        status=422,
        title="The Idempotency-Key came with another body before",
        description="A key stands for one request, for 24 hours. Nothing was taken.",
    ),
    ProblemKind(
        code="invalid_idempotency_key",
        status=400,
        title="The Idempotency-Key cannot be read",
        description="It must be a text of printable ASCII in double quotes.",
    ),
    ProblemKind(
        code="malformed_gzip",
        status=400,
        title="The body is not gzip",
        description="`Content-Encoding: gzip` was sent, but the body is damaged or cut short.",
    ),
    ProblemKind(
        code="unreadable_launch",
        status=422,
        title="A text of the launch cannot be read",
        description="It is not the YAML, JSON, TOML or shell that it should be; `file`, `line` and "
        "`column` say where. Nothing of a launch is ever run.",
    ),
    ProblemKind(
        code="unknown_framework",
        status=422,
        title="The configuration is of no framework that is understood",
        description="Name its framework in `launch.framework`; `hint` lists them.",
    ),
    ProblemKind(
        code="incomplete_launch",
        status=422,
        title="The launch does not say all that its peak depends on",
        description="`errors` lists what is said out of sight, or nowhere, and how to send it. "
        "`POST /v1/launches/parse` shows what was read all the same.",
    ),
    ProblemKind(
        code="invalid_file",
        status=422,
        title="The body is not the file that its digest says",
        description="A file is text in UTF-8, put under the SHA-256 of its bytes.",
    ),
    ProblemKind(
        code="files_full",
        status=409,
        title="The tenant keeps as many files as one may",
        description="Files leave by themselves 90 days after they were last sent. Small ones need "
        "not be sent ahead: a launch takes their text.",
    ),
    ProblemKind(
        code="invalid",
        status=422,
        title="The request cannot be answered",
        description="`detail` says why and `hint` the way out.",
    ),
    ProblemKind(
        code="malformed_json",
        status=400,
        title="The body is not JSON",
        description="The body must be JSON (RFC 8259) in UTF-8: no NaN, no key twice in one "
        "object, not nested deeper than the service allows.",
    ),
    ProblemKind(
        code="unstorable_text",
        status=400,
        title="A text holds characters that cannot be stored",
        description="U+0000 and halves of surrogate pairs are refused wherever they stand.",
    ),
    ProblemKind(
        code="invalid_cursor",
        status=400,
        title="The cursor is not one that this list gave",
        description="Take `next_cursor` as it was given, with the same filters, or start anew "
        "without a cursor.",
    ),
    ProblemKind(
        code="bad_request",
        status=400,
        title="The request cannot be read",
        description="`detail` says what is wrong with it.",
    ),
    ProblemKind(
        code="unauthenticated",
        status=401,
        title="A valid token is needed",
        description="Send `Authorization: Bearer TOKEN`. A token of this service is made by "
        "`vramgate token create`; one of an OpenID provider must be its JWT for this service. "
        "What is wrong with a token that was sent is not told, but the service's log says.",
    ),
    ProblemKind(
        code="loopback_only",
        status=403,
        title="Only programs of this machine may ask without a token",
        description="Without a token the service answers requests made to 127.0.0.1, [::1] or "
        "localhost, from this machine, through no proxy and from no page of another site.",
    ),
    ProblemKind(
        code="forbidden",
        status=403,
        title="The caller may not do this",
        description="The token is known but lacks the scope that `scope` names, or is a report token, "
        "which may post the reports of its decision and do nothing else.",
    ),
    ProblemKind(
        code="not_found",
        status=404,
        title="Nothing is here",
        description="The address names nothing this service has; `/openapi.json` lists its paths.",
    ),
    ProblemKind(
        code="not_quarantined",
        status=409,
        title="The report is not in quarantine",
        description="It counts already; there is nothing to release.",
    ),
    ProblemKind(
        code="job_unknown",
        status=409,
        title="The report has no estimate to be held against",
        description="Its job is not known, so it would teach nothing; it stays in quarantine.",
    ),
    ProblemKind(
        code="catalog_full",
        status=409,
        title="The tenant has as many catalog entries as one may have",
        description="Their number and their length together are bounded; `detail` has the figures.",
    ),
    ProblemKind(
        code="policies_full",
        status=409,
        title="The tenant has as many policy versions as one may have",
        description="Retired versions that were never active make room; `detail` has the figures.",
    ),
    ProblemKind(
        code="not_a_draft",
        status=409,
        title="The policy version is not a draft",
        description="Only drafts are taken back. The active version leaves when another one, or "
        "`default`, is activated.",
    ),
    ProblemKind(
        code="precondition_required",
        status=428,
        title="Say which state of it is to be changed",
        description="What is there already is replaced, deleted or activated only with its ETag as "
        "`If-Match`, so that nobody undoes what somebody else did meanwhile.",
    ),
    ProblemKind(
        code="precondition_failed",
        status=412,
        title="It is not in the state that the request speaks of",
        description="`If-Match` names another state than the present one, or `If-None-Match: *` was "
        "sent and there is one. Get it again and decide anew.",
    ),
    ProblemKind(
        code="method_not_allowed",
        status=405,
        title="The path does not take this method",
        description="The `Allow` header lists the methods it takes.",
    ),
    ProblemKind(
        code="body_too_large",
        status=413,
        title="The body is too large",
        description="Send fewer items at once. The limit is the service's setting "
        "VRAMGATE_MAX_BODY_BYTES.",
    ),
    ProblemKind(
        code="unsupported_media_type",
        status=415,
        title="The body is not declared as JSON",
        description="Send it with the header `Content-Type: application/json`, as it is or with "
        "`Content-Encoding: gzip`.",
    ),
    ProblemKind(
        code="overloaded",
        status=503,
        title="More comes in than is taken at once",
        description="Nothing was taken. Send the same again after `Retry-After` seconds.",
        retry_after_seconds=1,
    ),
    ProblemKind(
        code="too_many_attempts",
        status=429,
        title="Too many unknown tokens",
        description="Unknown tokens are looked up only so often. Tokens in use are not held up.",
        retry_after_seconds=1,
    ),
    ProblemKind(
        code="database_unavailable",
        status=503,
        title="The database does not answer",
        description="Nothing was acknowledged. Send the same again: what was stored all the same "
        "counts once.",
        retry_after_seconds=2,
    ),
    ProblemKind(
        code="schema_outdated",
        status=503,
        title="The database has an older schema",
        description="Whoever runs the service must bring it up to date with `vramgate migrate`.",
        retry_after_seconds=30,
    ),
    ProblemKind(
        code="issuer_unavailable",
        status=503,
        title="The issuer of the token does not answer",
        description="Its keys are needed to judge the token, and none are kept from before.",
        retry_after_seconds=10,
    ),
    ProblemKind(
        code="hub_unavailable",
        status=503,
        title="The model hub did not answer usably",
        description="The catalog does not know the model and the hub could not be asked. Try "
        "again, or give the model's config.json as `model.config`.",
    ),
    ProblemKind(
        code="internal_error",
        status=500,
        title="The service failed",
        description="This is a fault of the service. Its log has the details under `request_id`.",
    ),
)

KINDS: Mapping[str, ProblemKind] = {kind.code: kind for kind in _KINDS}
