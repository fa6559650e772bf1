"""A tenant's own model or accelerator as it arrives.

``catalog/site_entries.py`` says what is in it, for the site's file and for HTTP alike; its schema is
told here. Only what any config.json of a request must hold to is checked here.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vramgate.catalog.site_entries import EntryKind, entry_schema
from vramgate.wire.model_config import ModelConfig


def _told(kind: EntryKind, title: str) -> Callable[[dict[str, Any]], None]:
    def tell(schema: dict[str, Any]) -> None:
        schema.clear()
        schema.update({"title": title, **deepcopy(dict(entry_schema(kind)))})

    return tell


class SiteModelIn(BaseModel):
    """A model: its names, and its config.json or its parameters."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra=_told(EntryKind.MODEL, "SiteModelIn")
    )

    config: ModelConfig = Field(default_factory=dict)


class SiteAcceleratorIn(BaseModel):
    """An accelerator: its names and facts; of a known one only what differs."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra=_told(EntryKind.ACCELERATOR, "SiteAcceleratorIn")
    )
