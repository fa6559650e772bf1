"""The audit trail as its readers see it."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class AuditEntryOut(BaseModel):
    """One administrative act."""

    model_config = ConfigDict(from_attributes=True)

    audit_id: str
    at: datetime
    actor: str = Field(
        description="Who did it: the name of a token, or a user of the command line."
    )
    action: str = Field(description="What was done, as `token.revoke`.")
    subject: str = Field(description="What it was done to, by its id.")
    detail: dict[str, Any]
