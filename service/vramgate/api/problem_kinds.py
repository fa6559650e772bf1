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
        code="not_available",
        status=422,
        title="This version does not do that yet",
        description="The field is part of the interface, but this version has nothing behind it.",
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
        code="loopback_only",
        status=403,
        title="Only programs of this machine may ask without a token",
        description="Without tokens the service answers requests made to 127.0.0.1, [::1] or "
        "localhost, from this machine and through no proxy.",
    ),
    ProblemKind(
        code="forbidden",
        status=403,
        title="The caller may not do this",
        description="The token is known but lacks the scope that `detail` names.",
    ),
    ProblemKind(
        code="not_found",
        status=404,
        title="Nothing is here",
        description="The address names nothing this service has; `/openapi.json` lists its paths.",
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
        title="The body is not declared as plain JSON",
        description="Send it uncompressed, with the header `Content-Type: application/json`.",
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
