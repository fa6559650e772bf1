"""The shape of every error answer: a problem document (RFC 9457)."""

from pydantic import BaseModel, ConfigDict, Field


class ProblemField(BaseModel):
    """One thing wrong with one field of the body, or with one parameter of the address."""

    model_config = ConfigDict(extra="forbid")

    pointer: str | None = Field(
        default=None, description="JSON pointer (RFC 6901) into the body that was sent."
    )
    parameter: str | None = Field(
        default=None, description="Name of the query, path or header parameter."
    )
    code: str = Field(description="Stable word for machines.")
    detail: str = Field(description="What is wrong and the way out, for people.")
    value: bool | int | float | str | None = Field(
        default=None, description="What was sent, where it is short enough to repeat."
    )


class Problem(BaseModel):
    """What went wrong, in RFC 9457's members and ours; a kind of problem may add its own."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Address of the page about this kind of problem.")
    title: str = Field(description="The kind of problem, the same every time.")
    status: int = Field(description="The HTTP status code.")
    detail: str = Field(description="This occurrence, with its values, for people.")
    instance: str = Field(description="The path that was asked for.")
    code: str = Field(description="The last part of `type`: a stable word for machines.")
    request_id: str | None = Field(
        default=None, description="Quote it when asking about this answer; the log has it too."
    )
    hint: str | None = Field(default=None, description="The way out.")
    errors: list[ProblemField] = Field(description="The fields at fault, where they are known.")


class ProblemPage(BaseModel):
    """What a kind of problem means and what to do about it."""

    type: str
    title: str
    status: int
    description: str


class ProblemPages(BaseModel):
    """Every kind of problem."""

    items: list[ProblemPage]
    next_cursor: None
